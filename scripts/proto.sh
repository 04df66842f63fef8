#!/bin/sh
# Makes the Python modules of the kubelet's gRPC APIs again, from the .proto files beside them. They are checked in.
# PYTHON chooses the interpreter. With --check nothing is changed: it fails where what is checked in is not what comes out.
set -eu
tools=grpcio-tools==1.85.1
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$tools"
here=cardwise/kube/kubelet
out=src
if [ "${1:-}" = --check ]; then
    out=$work/out
    mkdir "$out"
fi
"$work/venv/bin/python" -m grpc_tools.protoc -I src --python_out="$out" --pyi_out="$out" \
    "src/$here/deviceplugin.proto" "src/$here/podresources.proto"
if [ "$out" != src ]; then
    for made in "$out/$here"/*_pb2.py "$out/$here"/*_pb2.pyi; do
        cmp "$made" "src/$here/$(basename "$made")"
    done
fi
