#!/usr/bin/env bash
# Checks the level of an application with the probe that Kubernetes users run in their containers.
#
# usage: health_probe.sh HOST:PORT
set -euo pipefail
. "$(dirname "$0")/need.sh"
need grpc_health_probe
need grpcurl

address=${1:?usage: health_probe.sh HOST:PORT}

report() { # level
  grpcurl -plaintext -max-time 10 -d "{\"application\": \"web\", \"unit\": \"web/0\", \"status\": {
    \"level\": \"$1\", \"message\": \"sent by health_probe.sh\", \"action\": \"none\"}}" \
    "$address" bellwether.v1.ReportService/ReportStatus >/dev/null
}

# The probe's own exit codes: 0 serving, 3 the call failed, 4 not serving.
expect() { # exit code, service, what it means
  local status=0 said
  said=$(grpc_health_probe -addr "$address" -connect-timeout 5s -rpc-timeout 5s -service "$2" 2>&1) || status=$?
  [ "$status" = "$1" ] || fail "-service '$2': $3, but the probe exits $status, not $1: $said"
  echo "probe of '$2' exits $status: $3"
}

expect 0 "" "the server itself serves"
expect 3 default/nowhere "an application without reports is not known"
report LEVEL_BLOCKED
expect 4 default/web "blocked is not serving"
report LEVEL_ACTIVE
expect 0 default/web "active is serving"
report LEVEL_ERROR
expect 4 default/web "error is not serving"
report LEVEL_ACTIVE
expect 0 default/web "active again is serving"
