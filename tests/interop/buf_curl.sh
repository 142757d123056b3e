#!/usr/bin/env bash
# Calls the server with `buf curl`, by Connect and by gRPC-Web: a call, an error with its detail, and a stream.
#
# usage: buf_curl.sh HOST:PORT
set -euo pipefail
. "$(dirname "$0")/need.sh"
need buf

address=${1:?usage: buf_curl.sh HOST:PORT}

# The types of the requests are read from the server's reflection.
call() { # protocol, method, request
  buf curl --protocol "$1" --http2-prior-knowledge -d "$3" "http://$address/bellwether.v1.$2"
}

for protocol in connect grpcweb; do
  said=$(call "$protocol" ReportService/ReportStatus '{"application": "buf", "unit": "buf/0", "status": {
    "level": "LEVEL_BLOCKED", "message": "by buf curl"}}')
  case $said in *'"revision"'*) ;; *) fail "$protocol: the answer has no revision: $said" ;; esac

  status=0
  said=$(call "$protocol" ApplicationService/GetApplication '{"application": "nothing"}' 2>&1) || status=$?
  # The status of HTTP, by eights: 5 for not_found.
  [ "$status" = $((5 * 8)) ] || fail "$protocol: the exit code of not_found is $status: $said"
  case $said in *google.rpc.ErrorInfo*) ;; *) fail "$protocol: no detail: $said" ;; esac

  # The stream goes on until its reader leaves, or until the time is over.
  said=$(buf curl --protocol "$protocol" --http2-prior-knowledge -d '{"applications": ["buf"]}' \
    "http://$address/bellwether.v1.ApplicationService/WatchApplications" |
    timeout 20 grep -m 1 snapshotComplete || true)
  [ -n "$said" ] || fail "$protocol: the stream has no snapshot"
  echo "$protocol: a call, an error, a stream"
done
