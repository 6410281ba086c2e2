#!/usr/bin/env bash
# Generates the Go code of the messages and services. It needs protoc (Debian:
# protobuf-compiler); the plugins are tools of the module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/" google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
PATH="$bin:$PATH" protoc -I proto \
	--go_out=. --go_opt=module=github.com/slotwise/slotwise \
	--connect-go_out=. --connect-go_opt=module=github.com/slotwise/slotwise,simple \
	proto/slotwise/v1/*.proto
