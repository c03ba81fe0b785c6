#!/bin/sh
# campaign_test.sh BUILD - the kit of campaign.sh, unpacked elsewhere, judges three programs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sh "$(dirname "$0")/campaign.sh" pack "$1" "$folder/kit.tgz" >/dev/null
tar xzf "$folder/kit.tgz" -C "$folder"
sh "$folder/kit/campaign.sh" run "$folder/out" 1 3 2 100 | tee "$folder/said"
grep -q '^3 programs: ' "$folder/said"
