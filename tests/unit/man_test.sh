#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The man pages: a command's page lists exactly the options that --help prints. Each function of libcr.h is on one page
# of section 3, those of fenix.h on fenix(3). mandoc or groff, if installed, report no errors.
# $1: docs/man, then the commands.
set -u
folder=$1
shift
bad=0

complain() { # WHAT
	[ -z "$1" ] && return
	echo "$1"
	bad=1
}

for command; do
	page=$(echo "$folder/${command##*/}".[18])
	helped=$("$command" --help | grep -E '^ +-' | grep -oE '(^|[ ,])--?[a-zA-Z-]+' | tr -d ' ,' | sort -u)
	# ".It Fl q , -quiet" and ".It Fl -kill Ns Op = Ns Ar SIG"
	written=$(sed -n 's/^\.It Fl //p' "$page" | sed 's/ Ns .*//; s/ Ar .*//; s/ , /\n/g' | sed 's/^/-/' | sort -u)
	[ "$(wc -l <<<"$helped")" -gt 4 ] || complain "${command##*/} --help lists no options: $helped"
	complain "$(diff --label "${command##*/} --help" --label "$page" -u0 <(echo "$helped") <(echo "$written"))"
done

# Every function of the library is on exactly one page, with its name in the NAME section.
for function in $(sed -nE 's/^extern [a-z_ ]+[ *](cri?_[a-z_]+)\(.*/\1/p' "$folder/../../libcr/include/libcr.h"); do
	name=$(sed -E 's/^cri_init_/cr_initialize_/' <<<"$function")
	pages=$(sed -n "/^\.Sh NAME/,/^\.Sh LIBRARY/s/^\.Nm $name\( ,\)\?\$/x/p" "$folder"/*.3 | wc -l)
	[ "$pages" = 1 ] || complain "$name is on $pages man pages"
done

# All functions of fenix.h are on their page, and nothing else: Fenix_Init is a macro, fenix_enter_ and fenix_leave_ are its parts.
fenix=$folder/../../libfenix/include/fenix.h
declared=$(sed -nE 's/^FENIX_API [a-z ]+[ *]([Ff]enix_[A-Za-z_]*[a-z])\(.*/\1/p' "$fenix" | sort)
[ "$(wc -l <<<"$declared")" -gt 40 ] || complain "fenix.h declares no functions: $declared"
complain "$(diff --label fenix.h --label fenix.3 -u0 <(printf 'Fenix_Init\n%s\n' "$declared" | sort) \
	<(sed -nE '/^\.Sh NAME/,/^\.Sh LIBRARY/s/^\.Nm ([A-Za-z_]+).*/\1/p' "$folder/fenix.3" | sort))"

for page in "$folder"/*.[1-8]; do
	if command -v mandoc >/dev/null; then
		complain "$(mandoc -Tlint -W warning "$page" 2>&1)"
	elif command -v groff >/dev/null; then
		complain "$(groff -mdoc -ww -z "$page" 2>&1)"
	fi
done
[ $bad = 0 ] && echo 'the man pages list the options of the commands'
exit $bad
