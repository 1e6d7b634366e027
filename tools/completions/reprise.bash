# SPDX-License-Identifier: GPL-2.0-only
# Completion of cr_checkpoint, cr_pause, cr_restart and cr_info in bash.

# Options by command. tests/unit/completions_test.sh compares them with --help.
_reprise_options() { # COMMAND
	local common='--json --help --version'
	local request="$common --file --quiet --verbose --timeout --stop --term --kill --cont"
	case $1 in
	cr_checkpoint) echo "$request --clobber --no-clobber --sync --no-sync --track --no-track --split-huge" ;;
	cr_pause) echo "$request --no-tracking --rewind-files --dead-sockets" ;;
	cr_restart)
		echo "$request --restore-pid --no-restore-pid --fd --detach --relocate --rewind-files --dead-sockets"
		;;
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

_reprise() {
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
		-f | --file | --timeout | --relocate | --fd) before=${words[i]} && continue ;;
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
	-f | --file) _reprise_files "$value" ;;
	--kill) _reprise_signals "$value" ;;
	--relocate) value=${value##*=} && _reprise_files "$value" -d ;;
	--fd)
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
		cr_checkpoint:1 | cr_pause:1 | cr_restart:0 | cr_info:0) _reprise_files "$word" ;;
		esac
		;;
	esac
	# Where "=" does not break words, what stands before the value is a part of each.
	word=${COMP_WORDS[COMP_CWORD]}
	if [[ $word == *?=* ]]; then
		COMPREPLY=("${COMPREPLY[@]/#/${word%"$value"}}")
	fi
}

complete -F _reprise cr_checkpoint cr_pause cr_restart cr_info
