#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Completion in bash and zsh: every option that --help prints is offered, and no other.
# $1: tools/completions, then the commands.
set -u
folder=$1
shift
bad=0
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

expect() { # WHAT WANTED GOT
	[ "$2" = "$3" ] && return
	echo "$1: wanted '$2', got '$3'"
	bad=1
}

long_options() { "$1" --help | grep -E '^ +-' | grep -oE '(^|[ ,])--[a-z-]+' | tr -d ' ,' | sort -u; }

source "$folder/reprise.bash" || exit 1

# Print what is offered for a command line, given as the words into which readline breaks it; sorted.
offered() { # WORD...
	local COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
	local last=${COMP_WORDS[COMP_CWORD]}
	[ "$last" != = ] || last=
	_reprise "$1" "$last" "${COMP_WORDS[COMP_CWORD - 1]}"
	printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

for command; do
	name=${command##*/}
	wanted=$(long_options "$command")
	[ "$(wc -l <<<"$wanted")" -gt 3 ] || expect "$name --help" 'a list of options' "$wanted"
	expect "$name --" "$wanted" "$(offered "$name" --)"
	[[ $(complete -p "$name") == *_reprise* ]] || expect "$name" _reprise "$(complete -p "$name")"
done

sleep 600 &
sleeper=$!
expect 'a number of a process' "$sleeper" "$(offered cr_checkpoint "$sleeper" | grep -x "$sleeper")"
expect 'the same for cr_pause, after options' "$sleeper" \
	"$(offered cr_pause --quiet --timeout 3 "$sleeper" | grep -x "$sleeper")"
cp "$(command -v sleep)" "$work/only-one"
"$work/only-one" 600 &
one=$!
until [ "$(cat /proc/$one/comm)" = only-one ]; do sleep 0.05; done
expect 'the name of a process' "$one" "$(offered cr_checkpoint only-o)"
kill "$sleeper" "$one"

mkdir -p "$work/here/a folder" && cd "$work/here" || exit 1
touch job.img 'job 2.img' other
expect 'an image' "$(printf 'job 2.img\njob.img')" "$(offered cr_checkpoint 1 job)"
expect 'an image by option' other "$(offered cr_pause 1 --file = oth)"
expect 'an image by option, apart' other "$(offered cr_restart -f oth)"
expect 'an image at the first place' other "$(offered cr_info --threads oth)"
expect 'nothing at the third place' '' "$(offered cr_checkpoint 1 job.img oth)"
expect 'a folder' 'a folder' "$(offered cr_restart --relocate = /old = a)"
expect 'a folder, apart' 'a folder' "$(offered cr_restart --relocate /old = a)"
expect 'what to do with snapshots' "$(printf 'take\nto')" "$(offered cr_snapshot --quiet t)"
expect 'options of one of these' --all "$(offered cr_snapshot drop 1 --al)"
expect 'a place for a snapshot' other "$(offered cr_snapshot save 1 2 oth)"
expect 'a substitute' other "$(offered cr_restart --fd 5 = oth)"
expect 'no number of a descriptor' '' "$(offered cr_restart --fd '')"
expect 'no number of seconds' '' "$(offered cr_restart --timeout '')"
expect 'a signal' "$(printf 'STKFLT\nSTOP')" "$(offered cr_pause --kill = ST)"
expect 'a signal by its whole name' SIGTERM "$(offered cr_pause --kill = SIGTE)"
expect 'a signal where = does not break words' --kill=TERM "$(offered cr_pause --kill=TE)"
[ "$(offered cr_pause --kill = | wc -l)" -gt 20 ] || expect 'all signals' 'more than 20' "$(offered cr_pause --kill =)"
for command; do
	[ "${command##*/}" = cr_pause ] || continue
	for signal in $(offered cr_pause --kill =) IOT ABRT IO POLL; do
		expect "cr_pause --kill=$signal" '' "$("$command" "--kill=$signal" 1 "$work/none" 2>&1 | grep 'no signal')"
	done
	expect 'cr_pause --kill=NONE' 'cr_pause: there is no signal NONE' "$("$command" --kill=NONE 1 "$work/none" 2>&1)"
done

if command -v zsh >/dev/null; then
	for command; do
		name=${command##*/}
		# Print the arguments that it passes to zsh's _arguments, and extract the options.
		got=$(zsh -f -c '
			_arguments() { print -l -- "$@" }
			service=$1
			source $2' zsh "$name" "$folder/_reprise" |
			sed -E 's/^\([^)]*\)//; s/^\*//' | grep -oE '^--[a-z-]+' | sed 's/-$//' | sort -u)
		expect "$name in zsh" "$(long_options "$command")" "$got"
	done
else
	echo 'zsh is not installed: its completion was not tested'
fi
[ $bad = 0 ] && echo 'completions offer the options of the commands'
exit $bad
