#!/bin/sh
# Records upgrade.tar.gz, the directories of a killed master and a killed worker, for
# TestRecordedMaster:
#
#	sh record.sh PROGRAM CLIENT
#
# PROGRAM is slotwise of the commit to record. CLIENT is the same program, except that
# selfPath in mapreduce/remote returns the variable SLOTWISE_RECORD_PROGRAM: jobs ship a
# script of 60 bytes instead of 70 MB of program.
set -eu
program=$1 client=$2
to=$PWD/upgrade.tar.gz
dir=/tmp/slotwise-upgrade
mkdir $dir
cd $dir
mkdir in points
for i in 0 1 2 3; do for n in $(seq 60); do echo "line $((n % 7)) of $i"; done >in/f$i.txt; done
for i in $(seq 40); do echo "p$i:$((i % 9)),$((i % 7))"; done >points/p.txt
# The map of f3.txt waits as long as there is a file hold.
cat >map.sh <<'END'
#!/bin/sh
IFS= read -r first
case $first in *"of 3") while test -e /tmp/slotwise-upgrade/hold; do sleep 0.1; done ;; esac
{ printf '%s\n' "$first"; cat; } | cut -d' ' -f2
END
cat >program <<'END'
#!/bin/sh
exec /tmp/slotwise-upgrade/slotwise "$@"
END
chmod +x map.sh program
ln -s "$program" slotwise
export SLOTWISE_RECORD_PROGRAM=$dir/program
touch hold

"$program" master --dir m --listen 127.0.0.1:0 --address-file address --snapshot-size 4KiB >master.log 2>&1 &
master=$!
until test -s address; do sleep 0.1; done
SLOTWISE_MASTER=$(cat address)
export SLOTWISE_MASTER
"$program" worker --dir w1 --name w1 --listen 127.0.0.1:0 --map-slots 2 --reduce-slots 2 --memory 64MiB --min-free 1MiB >w1.log 2>&1 &
worker=$!
submit() { "$client" submit --user ann "$@"; }
submit wordcount $dir/in --output $dir/counts --wait -q
submit --user bob kmeans $dir/points --param k=2 --output $dir/clusters --wait -q
submit --mapper 'echo mapper is broken >&2; exit 3' --input $dir/in --output $dir/failed --max-attempts 1 --wait -q || true
"$program" policy learning-nb --set target=0 --set disk-limit=1e15 --set max-tasks=2
for i in 1 2 3; do submit sleep --param maps=4x10ms --param reduces=1x10ms --wait -q; done
submit --mapper ./map.sh --reducer 'uniq -c' --file map.sh --input $dir/in --output $dir/running --reduces 2 --split-size 720 --pool batch
sleep 2
submit --priority high --split-size 720 --mapper ./map.sh --file map.sh --input $dir/in --output $dir/waiting --pool batch
submit --user bob kmeans $dir/points --param k=2 --output $dir/chain --pool batch
sleep 4 # the other maps end, and the policy's state is recorded
kill -9 $master
kill -9 $worker
sleep 1

rm -f address hold master.log w1.log slotwise program
tar --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -czf "$to" .
rm -r $dir
