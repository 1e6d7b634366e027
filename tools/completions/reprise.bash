# SPDX-License-Identifier: GPL-2.0-only
# Completion of cr_checkpoint, cr_pause, cr_restart, cr_info, cr_image, cr_snapshot, afl-reprise, crrun and crjob in bash.

# Options by command. tests/unit/completions_test.sh compares them with --help.
_reprise_options() { # COMMAND
	local common='--json --help --version'
	local request="$common --file --quiet --verbose --timeout --stop --term --kill --cont"
	case $1 in
	cr_checkpoint) echo "$request --parent --delta --every --keep --compress --tree --group --pgid --session --sid --ptraced-skip --backup --clobber --no-clobber --sync --no-sync --track --no-track --kept-memory-to --split-huge --deleted-limit" ;;
	cr_pause) echo "$request --keep --no-tracking --keep-pipe --rewind-files --shared-memory --dead-sockets --hold" ;;
	cr_restart)
		echo "$request --restore-pid --no-restore-pid --copies --pid-namespace --restore-pgid --no-restore-pgid --restore-sid --no-restore-sid --fd --kept-memory --fill-kept-memory --detach --relocate --trust --rewind-files --shared-memory --dead-sockets --hold"
		;;
	cr_snapshot) echo "$common --quiet --verbose --timeout" ;;
	'cr_snapshot take') echo "$(_reprise_options cr_snapshot) --name" ;;
	'cr_snapshot to') echo "$(_reprise_options cr_snapshot) --rewind-files --shared-memory --dead-sockets" ;;
	'cr_snapshot drop') echo "$(_reprise_options cr_snapshot) --all" ;;
	'cr_snapshot save') echo "$(_reprise_options cr_snapshot) --no-clobber --no-sync" ;;
	'cr_snapshot '*) _reprise_options cr_snapshot ;;
	afl-reprise) echo '--at --at-accept --help --version' ;;
	crjob) echo "$common --output --force" ;;
	crrun)
		echo "--np --hosts --host --hostfile --machinefile --spares --mca --wdir --wd --npernode --map-by \
			--rankfile --bind-to --report-bindings --oversubscribe --stdin --tag-output --timeout --recover --with-ft --checkpoint-every --node-mtbf --checkpoint-share \
			--checkpoint-on --rollback-on --time-left --hang-after --on-hang --local --incremental --shared --redundancy --failure-groups --detect --detect-at-least --no-double-up \
			--require-checkpoints --max-restarts --stage-nodes --stage-rate --local-limit --quiesce-timeout --recover-timeout --abandon-after --keep --interface --fan-out --launcher \
			--launch-agent --report-file --metrics --restart --restart-or-run --attach --verbose --quiet --help --version"
		;;
	cr_image) echo "$common --quiet" ;;
	cr_info) echo "$common --verify --no-verify --summary --process --threads --mappings --descriptors" ;;
	esac
}

_reprise_signals() { # PREFIX
	local name
	for name in $(compgen -A signal SIG); do
		# What the commands know by name.
		[[ $name =~ ^SIG[A-Z]+[0-9]?$ && $name != SIGRT* ]] || continue
		[[ $1 == SIG* ]] || name=${name#SIG}
		[[ $name == "$1"* ]] && COMPREPLY+=("$name")
	done
}

# Processes that the caller may trace, by number, or by the name of just one.
_reprise_pids() { # PREFIX
	local dir pid name found=()
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/}
		[[ $EUID == 0 || -O $dir ]] && [[ $pid != "$$" ]] || continue
		# Kernel threads have no program.
		[[ -e $dir/exe ]] && read -r name 2>/dev/null <"$dir/comm" || continue
		[[ $pid == "$1"* || (-n $1 && $name == "$1"*) ]] || continue
		found+=("$pid ($name)")
	done
	# Names are for a list to look at (63: shown, nothing is inserted).
	if [[ ${COMP_TYPE-} == 63 ]] && ((${#found[@]} > 1)); then
		COMPREPLY=("${found[@]}")
	elif ((${#found[@]} == 1)) || [[ $1 != *[!0-9]* ]]; then
		COMPREPLY=("${found[@]%% *}")
	fi
}

_reprise_files() { # PREFIX [-d]
	local file
	compopt -o filenames 2>/dev/null
	while IFS= read -r file; do
		COMPREPLY+=("$file")
	done < <(compgen "${2--f}" -- "$1")
}

# Jobs of this user: what crjob knows by the same files.
_reprise_jobs() { # PREFIX
	local file
	for file in "${XDG_STATE_HOME:-$HOME/.local/state}"/reprise/jobs/*.json; do
		file=${file##*/} file=${file%.json}
		[[ $file == "$1"* && $file != '*' ]] && COMPREPLY+=("$file")
	done
}

# Options of crrun that take a value; --mca takes two.
_reprise_crrun_values=' -n -N -H -x --np --npernode --hosts --host --hostfile --machinefile --spares --wdir --wd --map-by --rankfile --bind-to --stdin --timeout --recover --with-ft --checkpoint-every --node-mtbf --checkpoint-share --checkpoint-on --rollback-on --time-left --hang-after --on-hang --local --shared --redundancy --failure-groups --detect --detect-at-least --max-restarts --stage-nodes --stage-rate --local-limit --quiesce-timeout --recover-timeout --abandon-after --interface --fan-out --launcher --launch-agent --report-file --metrics --restart --restart-or-run --attach '

_reprise_crrun() {
	local word i before='' skip=0
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((skip)); then
			((--skip)) || before=''
		elif [[ $word == = ]]; then
			before=${COMP_WORDS[i - 1]} skip=1
		elif [[ $word == --mca ]]; then
			before=$word skip=2
		elif [[ $_reprise_crrun_values == *" $word "* ]]; then
			before=$word skip=1
		elif [[ $word != -* ]]; then
			# From here on it is the program's own line.
			declare -F _command_offset >/dev/null && _command_offset "$i" || compopt -o default 2>/dev/null
			return
		fi
	done
	word=${COMP_WORDS[COMP_CWORD]}
	((skip)) || before=''
	[[ $word == = ]] && before=${COMP_WORDS[COMP_CWORD - 1]} word=''
	case $before in
	--hostfile | --machinefile | --rankfile | --failure-groups | --report-file | --metrics) _reprise_files "$word" ;;
	--wdir | --wd | --local | --shared | --restart | --restart-or-run | --attach) _reprise_files "$word" -d ;;
	--map-by) COMPREPLY=($(compgen -W 'slot node package numa core hwthread ppr: rankfile:file=' -- "$word")) ;;
	--bind-to) COMPREPLY=($(compgen -W 'none hwthread core numa package' -- "$word")) ;;
	--redundancy) COMPREPLY=($(compgen -W 'partner partner: xor: none' -- "$word")) ;;
	--stdin) COMPREPLY=($(compgen -W '0 all none' -- "$word")) ;;
	--recover) COMPREPLY=($(compgen -W 'all ulfm' -- "$word")) ;;
	--with-ft) COMPREPLY=($(compgen -W 'ulfm mpi none' -- "$word")) ;;
	--checkpoint-every) COMPREPLY=($(compgen -W 'auto start' -- "$word")) ;;
	--checkpoint-on | --rollback-on) COMPREPLY=($(compgen -W 'USR1 USR2 TERM INT HUP' -- "$word")) ;;
	--on-hang) COMPREPLY=($(compgen -W 'say recover' -- "$word")) ;;
	--launcher) COMPREPLY=($(compgen -W 'auto ssh srun' -- "$word")) ;;
	-H | --host | --hosts | --spares) COMPREPLY=($(compgen -A hostname -- "$word")) ;;
	-x) COMPREPLY=($(compgen -e -- "$word")) ;;
	'')
		if [[ $word == -* ]]; then
			COMPREPLY=($(compgen -W "$(_reprise_options crrun)" -- "$word"))
		else
			COMPREPLY=($(compgen -c -- "$word"))
			_reprise_files "$word"
		fi
		;;
	esac
}

_reprise_crjob() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i positionals=0
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-o | --output) ((++i)) ;;
		-*) ;;
		*) ((++positionals)) ;;
		esac
	done
	case $before in
	-o | --output) _reprise_files "$word" && return ;;
	esac
	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$(_reprise_options crjob)" -- "$word"))
	elif ((positionals == 0)); then
		COMPREPLY=($(compgen -W 'list status checkpoint drain report end remove' -- "$word"))
	elif ((positionals == 1)); then
		_reprise_jobs "$word"
		_reprise_files "$word" -d
	fi
}

_reprise_cr_snapshot() {
	local word=${COMP_WORDS[COMP_CWORD]} i verb='' pid='' positionals=0
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--timeout | --name | --shared-memory) ((++i)) ;;
		-* | =) ;;
		*)
			((++positionals))
			[[ -n $verb ]] && pid=${pid:-${COMP_WORDS[i]}} || verb=${COMP_WORDS[i]}
			;;
		esac
	done
	((i == COMP_CWORD)) || return
	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$(_reprise_options "cr_snapshot${verb:+ $verb}")" -- "$word"))
	elif ((positionals == 0)); then
		COMPREPLY=($(compgen -W 'take list to drop save' -- "$word"))
	elif ((positionals == 1)); then
		_reprise_pids "$word"
	elif [[ $verb == drop || ($positionals == 2 && $verb =~ ^(to|save)$) ]]; then
		# The drawn tree: a number behind the branches.
		COMPREPLY=($(compgen -W "$(cr_snapshot list "$pid" 2>/dev/null | sed -n 's/^  [^0-9]*\([0-9]*\) .*/\1/p')" -- "$word"))
	elif [[ $verb == save ]]; then
		_reprise_files "$word"
	fi
}

_reprise_afl() {
	local word=${COMP_WORDS[COMP_CWORD]} i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--at) ((++i)) ;;
		-*) ;;
		*)
			# The words of a command of AFL++.
			declare -F _command_offset >/dev/null && _command_offset "$i" || compopt -o default 2>/dev/null
			return
			;;
		esac
	done
	((i == COMP_CWORD)) || return
	if [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$(_reprise_options afl-reprise)" -- "$word"))
	else
		COMPREPLY=($(compgen -c -- "${word:-afl-}"))
	fi
}

_reprise() {
	case ${1##*/} in
	afl-reprise) _reprise_afl && return || return ;;
	crrun | crjob | cr_snapshot) "_reprise_${1##*/}" && return || return ;;
	esac
	local command=${1##*/} words=() word before='' option='' value='' i positionals=0
	COMPREPLY=()
	# Readline takes "=" for a word of its own: put words together again.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((${#words[@]})) && [[ $word == = || ${words[-1]} == *= ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	word=${words[-1]}
	for ((i = 0; i < ${#words[@]} - 1; i++)); do
		case ${words[i]} in
		-f | --file | --parent | --compress | --timeout | --relocate | --fd | --kept-memory | --fill-kept-memory) before=${words[i]} && continue ;;
		-*) ;;
		*) [[ -n $before ]] || ((++positionals)) ;;
		esac
		before=''
	done
	if [[ $word == --*=* ]]; then
		option=${word%%=*} value=${word#*=}
	elif [[ -n $before ]]; then
		option=$before value=$word
	fi

	case $option in
	-f | --file | --parent) _reprise_files "$value" ;;
	--kill) _reprise_signals "$value" ;;
	--compress) mapfile -t COMPREPLY < <(compgen -W 'lz4 zstd' -- "$value") ;;
	--relocate) value=${value##*=} && _reprise_files "$value" -d ;;
	--fd | --kept-memory)
		# N=PATH; nothing is known of numbers.
		[[ $value != *=* ]] || { value=${value#*=} && _reprise_files "$value"; }
		;;
	--?*) ;;
	*)
		value=$word
		if [[ $word == -* ]]; then
			while IFS= read -r value; do
				COMPREPLY+=("$value")
			done < <(compgen -W "$(_reprise_options "$command")" -- "$word")
			return
		fi
		case $command:$positionals in
		cr_checkpoint:0 | cr_pause:0) _reprise_pids "$word" ;;
		cr_image:0) mapfile -t COMPREPLY < <(compgen -W merge -- "$word") ;;
		cr_image:1 | cr_image:2 | cr_checkpoint:1 | cr_pause:1 | cr_restart:0 | cr_info:0) _reprise_files "$word" ;;
		esac
		;;
	esac
	# Where "=" does not break words, what stands before the value is a part of each.
	word=${COMP_WORDS[COMP_CWORD]}
	if [[ $word == *?=* ]]; then
		COMPREPLY=("${COMPREPLY[@]/#/${word%"$value"}}")
	fi
}

complete -F _reprise cr_checkpoint cr_pause cr_restart cr_info cr_image cr_snapshot afl-reprise crrun crjob
