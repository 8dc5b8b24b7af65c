#!/bin/sh
# Generates plugin.pb.go and plugin_grpc.pb.go from ../../wire/plugin.proto.
#
# Needs protoc on the PATH (any release since 3.21); the Go generators are
# built at the versions pinned in .ci/tools. The comment that names the protoc
# release is cut from the output, so that two machines generate equal files.
set -eu
cd "$(dirname "$0")"
here=$PWD
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

command -v protoc >/dev/null || {
	echo "gen.sh: protoc is not installed (Debian: apt-get install protobuf-compiler)" >&2
	exit 1
}
(cd ../../../.ci/tools && go build -o "$tools/" \
	google.golang.org/protobuf/cmd/protoc-gen-go \
	google.golang.org/grpc/cmd/protoc-gen-go-grpc)

PATH="$tools:$PATH" protoc --proto_path="$here/../../wire" \
	--go_out="$here" --go_opt=paths=source_relative \
	--go-grpc_out="$here" --go-grpc_opt=paths=source_relative \
	plugin.proto

for file in plugin.pb.go plugin_grpc.pb.go; do
	sed '/^\/\/ *[-]* *protoc  *v[0-9]/d' "$file" >"$tools/$file"
	cat "$tools/$file" >"$file"
done
