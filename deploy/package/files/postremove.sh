#!/bin/sh
# Runs after a removal. The daemons' directories stay: the master's holds the journal and
# the history of jobs, which exist only there.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
