#!/bin/sh
# Four searches over copies of the example memories. Needs `vademecum` on PATH; `make demo` sees to that.
set -eu

examples=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$examples/investor" "$examples/project" "$work"
unset VADEMECUM_ROOT

show() { # title, memory, query, further options
    printf '\n== %s\n$ vademecum search "%s" %s\n\n' "$1" "$3" "$4"
    # shellcheck disable=SC2086  # the options are words
    vademecum --root "$work/$2" search "$3" $4
}

for memory in investor project; do
    echo "\$ vademecum sync   ($memory)"
    vademecum --root "$work/$memory" sync
done

show "Chinese: how much NVIDIA may still be bought?" \
    investor "英伟达还能买多少" "-k 2 --explain"
show "Across languages: an English question, an answer that stands only in Chinese" \
    investor "when does our daughter go to college?" "-k 2 --explain"
show "Decay: two notes say the same in the same words; the newer one wins" \
    project "who is primary on-call this quarter?" "-k 2 --explain"
show "MMR: one reminder stands in many dailies; after the first copy, other notes get room" \
    project "where and when is standup?" "-k 4 --explain"
