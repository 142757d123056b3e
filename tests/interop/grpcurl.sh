#!/usr/bin/env bash
# Uses a running server like a person with grpcurl: lists, describes, calls every method, and reads an error.
# Fails if reflection lists a Bellwether method that was not called.
#
# usage: grpcurl.sh HOST:PORT
set -euo pipefail
. "$(dirname "$0")/need.sh"
need grpcurl

address=${1:?usage: grpcurl.sh HOST:PORT}
namespace=grpcurl
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$scratch/called"

grpc() { grpcurl -plaintext "$@"; }

# Calls METHOD with JSON. The answer must contain every further argument.
call() {
  local method=$1 json=$2 text
  shift 2
  echo "bellwether.v1.$method" >>"$scratch/called"
  grpc -max-time 10 -d "$json" "$address" "bellwether.v1.$method" >"$scratch/answer" 2>&1 ||
    fail "$method $json: $(cat "$scratch/answer")"
  for text in "$@"; do
    grep -qF -- "$text" "$scratch/answer" || fail "$method: no $text in: $(cat "$scratch/answer")"
  done
  echo "called $method"
}

# Calls a METHOD with an endless stream, for 3 s.
follow() {
  local method=$1 json=$2 text status=0
  shift 2
  echo "$method" >>"$scratch/called"
  grpc -max-time 3 -d "$json" "$address" "$method" >"$scratch/answer" 2>&1 || status=$?
  # 64 + DEADLINE_EXCEEDED: the result of -max-time.
  [ "$status" = 68 ] || fail "$method: ended with $status: $(cat "$scratch/answer")"
  for text in "$@"; do
    grep -qF -- "$text" "$scratch/answer" || fail "$method: no $text in: $(cat "$scratch/answer")"
  done
  echo "followed $method"
}

# Calls METHOD with invalid JSON content: grpcurl must print the code and the decoded reason.
refuse() {
  local method=$1 json=$2 code=$3 reason=$4
  if grpc -max-time 10 -d "$json" "$address" "bellwether.v1.$method" >"$scratch/answer" 2>&1; then
    fail "$method $json: accepted: $(cat "$scratch/answer")"
  fi
  grep -qF "Code: $code" "$scratch/answer" || fail "$method: not $code: $(cat "$scratch/answer")"
  grep -qE "\"reason\": *\"$reason\"" "$scratch/answer" ||
    fail "$method: no decoded $reason: $(cat "$scratch/answer")"
  grep -qE '"domain": *"bellwether"' "$scratch/answer" ||
    fail "$method: the domain is not bellwether: $(cat "$scratch/answer")"
  echo "refused $method with $reason"
}

# 1. List and describe. Every method needs a comment, because a terminal shows nothing else about it.
grpc "$address" list >"$scratch/services"
for service in grpc.health.v1.Health grpc.reflection.v1.ServerReflection \
  grpc.reflection.v1alpha.ServerReflection bellwether.v1.ReportService bellwether.v1.ApplicationService \
  bellwether.v1.WorkerService bellwether.v1.OperationService; do
  grep -qx "$service" "$scratch/services" || fail "not listed: $service"
done
grep '^bellwether\.v1\.' "$scratch/services" >"$scratch/ours"
while read -r service; do
  grpc "$address" list "$service" </dev/null >>"$scratch/methods"
  grpc "$address" describe "$service" </dev/null >"$scratch/described"
  bare=$(awk '/^ *rpc / && previous !~ /^ *\/\// { print $2 } { previous = $0 }' "$scratch/described")
  [ -z "$bare" ] || fail "$service: described without a comment: $bare"
done <"$scratch/ours"
grpc "$address" describe bellwether.v1.StatusReport >"$scratch/described"
grep -q '// .*person' "$scratch/described" ||
  fail "bellwether.v1.StatusReport: described without the comments of its fields"
echo "listed and described $(wc -l <"$scratch/methods") methods"

# 2. Report statuses.
app="\"namespace\": \"$namespace\", \"application\": \"web\""
call ReportService/ReportStatus "{$app, \"unit\": \"web/0\", \"request_id\": \"once\", \"status\": {
  \"component\": \"database\", \"level\": \"LEVEL_BLOCKED\", \"message\": \"add a database relation\",
  \"action\": \"juju integrate web postgresql\", \"ttl\": \"90s\", \"labels\": {\"by\": \"grpcurl\"},
  \"needs\": [{\"application\": {\"application\": \"postgresql\"}}, {\"outside\": \"quota cpu of prod\"}]}}" \
  '"revision"' '"changed": true'
call ReportService/ReplaceStatuses "{$app, \"unit\": \"web/1\", \"statuses\": [
  {\"component\": \"http\", \"level\": \"LEVEL_ACTIVE\"},
  {\"component\": \"cache\", \"level\": \"LEVEL_MAINTENANCE\", \"message\": \"warming up\"}]}" '"changed": true'
call ReportService/ReplaceStatuses "{$app, \"unit\": \"web/1\", \"component\": \"cache\", \"statuses\": []}" \
  '"removedCount": 1'

# 3. Read them.
call ApplicationService/GetApplication "{$app}" LEVEL_BLOCKED 'add a database relation' '"unit": "web/0"'
call ApplicationService/ListApplications "{\"namespace\": \"-\", \"levels\": [\"LEVEL_BLOCKED\"]}" '"name": "web"'
call ApplicationService/ListNamespaces "{\"page_size\": 1000}" "\"name\": \"$namespace\"" '"applicationsByLevel"' '"worst"'
call ApplicationService/ExplainApplication "{$app}" '"winner"' '"rule"' '"beaten"' 'juju integrate web postgresql'
call ApplicationService/ListBlockers "{\"namespace\": \"$namespace\"}" CAUSE_STATE_OUTSIDE '"quota cpu of prod"' \
  CAUSE_STATE_NOT_KNOWN '"application": "postgresql"'
call ApplicationService/GetUptime "{$app, \"start\": \"$(date --utc --date '1 day ago' +%Y-%m-%dT%H:%M:%SZ)\"}" '"notWell"' \
  '"unknown"' '"episodeCount": 1'
call ApplicationService/ListPast "{\"namespace\": \"$namespace\", \"slot\": \"3600s\", \"slot_count\": 24,
  \"start_time\": \"$(date --utc --date '23 hours ago' +%Y-%m-%dT%H:%M:%SZ)\"}" '"application": "web"' '"slots"'
call ApplicationService/ListStatuses "{$app, \"unit\": \"web/1\"}" STATUS_KIND_PULL LEVEL_ACTIVE
call ApplicationService/ListUnits "{$app, \"page_size\": 1}" '"name": "web/0"' '"nextPageToken"'
follow bellwether.v1.ApplicationService/WatchApplications "{\"namespace\": \"$namespace\"}" \
  '"upserted"' '"snapshotComplete"' '"resumeToken"' '"storeEpoch"'
create="{\"create\": {\"watch_id\": 7, \"watch\": {\"namespace\": \"$namespace\"}}}"
follow bellwether.v1.ApplicationService/MultiplexWatches "$create" '"watchIds"' '"upserted"' '"snapshotComplete"'
call ApplicationService/MultiplexWatches "$create {\"cancel\": {\"watch_id\": 7}}" '"ended"' 'cancelled as asked'

# 4. Configure, and set the status of the whole application.
call ApplicationService/ConfigureApplication "{$app, \"config\": {
  \"policy\": {\"name\": \"openstack\"}, \"external_leader\": {\"unit\": \"web/0\"}}}" openstack
call ApplicationService/SetApplicationStatus "{$app, \"unit\": \"web/0\", \"level\": \"LEVEL_MAINTENANCE\",
  \"message\": \"migrating\", \"mode\": \"APPLICATION_STATUS_MODE_OVERRIDE\", \"ttl\": \"60s\"}" '"changed": true'
call ApplicationService/GetApplication "{$app}" '"leaderSet": true' migrating
call ApplicationService/ClearApplicationStatus "{$app, \"unit\": \"web/0\"}" '"changed": true'
call ApplicationService/ReplaceApplicationStatuses "{$app, \"unit\": \"web/0\", \"statuses\": [
  {\"component\": \"tls\", \"level\": \"LEVEL_WAITING\", \"short_message\": \"no key\"}]}" '"changed": true'
call ApplicationService/ListStatuses "{$app}" '"shortMessage": "no key"'
call ApplicationService/ReplaceApplicationStatuses "{$app, \"unit\": \"web/0\"}" '"removedCount": 1'
call ReportService/ClearStatus "{$app, \"unit\": \"web/0\", \"component\": \"database\"}" '"clearedCount": 1'
call ApplicationService/ListStatusEvents "{$app}" '"events"' LEVEL_BLOCKED Reported Cleared

# Elect a leader on the server. It writes the shared data.
call ApplicationService/ConfigureApplication "{$app, \"update_mask\": {\"paths\": [\"external_leader\", \"lease_duration\"]},
  \"config\": {\"lease_duration\": \"60s\"}}" '"leaseDuration": "60s"'
call LeaderService/ClaimLeadership "{$app, \"unit\": \"web/0\"}" '"leaseEpoch": "1"' '"expireTime"'
refuse LeaderService/ClaimLeadership "{$app, \"unit\": \"web/1\"}" FailedPrecondition LEASE_HELD
call LeaderService/RenewLeadership "{$app, \"unit\": \"web/0\", \"lease_epoch\": \"1\"}" '"leaseEpoch": "1"'
call LeaderService/GetLeader "{$app}" '"unit": "web/0"' '"candidateCount": 1'
call AppDataService/UpdateAppData "{$app, \"unit\": \"web/0\", \"lease_epoch\": \"1\",
  \"set\": {\"database\": \"d2Vi\"}}" '"changed": true' '"etag"'
call AppDataService/GetAppData "{$app}" '"database": "d2Vi"'
follow bellwether.v1.AppDataService/WatchAppData "{$app}" '"database": "d2Vi"'
call LeaderService/ReleaseLeadership "{$app, \"unit\": \"web/0\", \"lease_epoch\": \"1\"}" '"changed": true'
call LeaderService/TransferLeadership "{$app, \"to_unit\": \"web/0\"}" '"leaseEpoch": "3"'
refuse AppDataService/UpdateAppData "{$app, \"unit\": \"web/0\", \"lease_epoch\": \"1\",
  \"set\": {\"database\": \"\"}}" FailedPrecondition NOT_LEADER

# 5. Invalid requests are refused with a reason in words.
refuse ApplicationService/GetApplication "{\"application\": \"nowhere\"}" NotFound APPLICATION_NOT_FOUND
refuse ApplicationService/GetApplication "{}" InvalidArgument MISSING_FIELD
refuse ReportService/ReportStatus "{$app, \"unit\": \"not a name\", \"status\": {\"level\": \"LEVEL_ACTIVE\"}}" \
  InvalidArgument INVALID_NAME
refuse ReportService/ReportStatus "{$app, \"unit\": \"web/0\", \"status\": {\"level\": 99}}" \
  InvalidArgument UNKNOWN_LEVEL
refuse ApplicationService/ListApplications "{\"page_token\": \"from elsewhere\"}" InvalidArgument INVALID_PAGE_TOKEN

# 6. Health, by the standard protocol.
grpc -d "{\"service\": \"$namespace/web\"}" "$address" grpc.health.v1.Health/Check >"$scratch/answer"
grep -q '"SERVING"' "$scratch/answer" || fail "$namespace/web does not serve: $(cat "$scratch/answer")"
grpc "$address" grpc.health.v1.Health/List >"$scratch/answer"
grep -qF "\"$namespace/web\"" "$scratch/answer" ||
  fail "grpc.health.v1.Health/List lacks $namespace/web"
follow grpc.health.v1.Health/Watch '{"service": "grpcurl/nowhere"}' SERVICE_UNKNOWN

# 7. Workers: one with a TTL, one with a session that it closes; then a question to all.
call WorkerService/RegisterUnit "{$app, \"unit\": \"web/2\", \"ttl\": \"30s\"}" '"incarnation": "1"' '"10s"'
call WorkerService/AnnounceStop "{$app, \"unit\": \"web/2\"}" '"changed": true'
call WorkerService/RequestCallback "{$app, \"unit\": \"web/2\", \"after\": \"30s\"}" '"changed": true'
call WorkerService/Connect "{\"hello\": {$app, \"unit\": \"web/3\"}}
  {\"report\": {\"seq\": 1, \"statuses\": [{\"level\": \"LEVEL_ACTIVE\"}]}}
  {\"goodbye\": {\"removed\": true}}" '"welcome"' '"ack"' '"unacknowledgedMax"'
call ApplicationService/CollectApplication "{$app, \"deadline\": \"1s\"}" '"answers"' '"name": "web/2"'

# 8. Operations: begun, interrupted, acquired, failed, retried, completed; one that is cancelled.
op="$app, \"unit\": \"web/2\", \"operation_id\": \"up-v2\""
next="$app, \"operation_id\": \"up-v3\", \"target_version\": \"v3\""
payload=$(printf 'bundle of v2' | base64)
digest=sha256:$(printf 'bundle of v2' | sha256sum | cut -d' ' -f1)
call OperationService/BeginOperation "{$op, \"target_version\": \"v2\", \"payload\": \"$payload\"}" \
  '"begun": true' '"fence": "1"' OPERATION_STATE_RUNNING '"holder": "web/2"' "$digest"
call OperationService/HeartbeatOperation "{$op, \"fence\": 1, \"progress\": \"step 3/7\", \"checkpoint\": \"Mw==\"}" \
  '"progress": "step 3/7"'
call ApplicationService/ExplainApplication "{$app}" 'upgrading to v2 (step 3/7)' '"nextStep"'
refuse OperationService/BeginOperation "{$next}" Aborted OPERATION_HELD
call OperationService/ReleaseOperation "{$op, \"fence\": 1}" OPERATION_STATE_INTERRUPTED '"nextTargetVersion": "v3"'
refuse OperationService/BeginOperation "{$next}" FailedPrecondition RESUME_FIRST
call WorkerService/RegisterUnit "{$app, \"unit\": \"web/3\"}" '"operations"' '"checkpoint": "Mw=="' "$payload"
call OperationService/AcquireOperation "{$op, \"verify\": true}" OPERATION_STATE_VERIFYING '"fence": "2"' "$payload"
refuse OperationService/CompleteOperation "{$op, \"fence\": 1}" Aborted STALE_FENCE
refuse OperationService/CompleteOperation "{$op, \"fence\": 2}" FailedPrecondition OPERATION_STATE
call OperationService/VerifyOperation "{$op, \"fence\": 2, \"observed\": \"OBSERVED_NOT_APPLIED\"}" \
  OPERATION_STATE_RUNNING
call OperationService/FailOperation "{$op, \"fence\": 2, \"error\": {\"class\": \"ERROR_CLASS_BLOCKED\",
  \"message\": \"forbidden: cannot patch deployments\"}}" OPERATION_STATE_BLOCKED
call OperationService/RetryOperation "{$app, \"operation_id\": \"up-v2\"}" OPERATION_STATE_READY
call OperationService/AcquireOperation "{$op}" '"fence": "3"'
call OperationService/CompleteOperation "{$op, \"fence\": 3}" OPERATION_STATE_SUCCEEDED '"nextTargetVersion": "v3"'
call OperationService/BeginOperation "{$next}" OPERATION_STATE_READY
call OperationService/CancelOperation "{$app, \"operation_id\": \"up-v3\"}" OPERATION_STATE_ABANDONED
call OperationService/GetOperation "{$app, \"operation_id\": \"up-v2\"}" '"history"' RELEASED COMPLETED
call OperationService/ListOperations "{$app}" '"up-v3"' '"up-v2"'
refuse OperationService/GetOperation "{$app, \"operation_id\": \"nowhere\"}" NotFound OPERATION_NOT_FOUND

# 9. Errors, and the component that a fault holds.
error="\"component\": \"db\", \"target\": \"pg\", \"system\": \"grpc\", \"origin\": \"ERROR_ORIGIN_PEER\""
call ReportService/ReportError "{$app, \"unit\": \"web/0\", \"error\": {$error, \"code\": \"UNAVAILABLE\"}}" \
  ERROR_CLASS_TRANSIENT VERDICT_ACTION_RETRY '"rule": "grpc.unavailable"' '"attemptsLeft": 9'
call ReportService/ResolveError "{$app, \"unit\": \"web/0\", \"component\": \"db\"}" '"resolvedCount": 1'
call ReportService/ReportError "{$app, \"unit\": \"web/0\", \"error\": {$error, \"code\": \"DATA_LOSS\"}}" \
  ERROR_CLASS_FATAL '"held": true'
call ApplicationService/ListFaults "{$app}" ERROR_CLASS_FATAL LEVEL_ERROR '"target": "pg"'
call ApplicationService/ListFaults "{\"namespace\": \"$namespace\", \"group_by_target\": true}" '"targets"' \
  '"unitCount": 1' '"target": "pg"' "\"$namespace/web\""
call ApplicationService/ResolveHold "{$app, \"unit\": \"web/0\", \"component\": \"db\",
  \"resolution\": \"HOLD_RESOLUTION_SKIP\"}" '"releasedCount": 1'
refuse ReportService/ReportError "{$app, \"unit\": \"web/0\", \"error\": {$error, \"reason\": \"Not So\"}}" \
  InvalidArgument INVALID_VALUE

# 10. Marks.
mark="\"mark_id\": \"m\", \"kind\": \"MARK_KIND_PLANNED\", \"unit\": \"web/0\", \"reason\": \"new disks\""
call ApplicationService/SetMark "{$app, \"mark\": {$mark}, \"during\": \"3600s\"}" '"inForce": true' '"endTime"'
call ApplicationService/ListMarks "{$app}" '"markId": "m"' '"unit": "web/0"' '"new disks"'
refuse ApplicationService/SetMark "{$app, \"mark\": {$mark}}" InvalidArgument MISSING_FIELD
call ApplicationService/RemoveMark "{$app, \"mark_id\": \"m\"}" '"revision"'
refuse ApplicationService/RemoveMark "{$app, \"mark_id\": \"m\"}" NotFound MARK_NOT_FOUND

# 11. Remove the unit and the application.
call ApplicationService/RemoveUnit "{$app, \"unit\": \"web/1\"}" '"removedCount": 1'
call ApplicationService/DeleteApplication "{$app}" '"revision"'
refuse ApplicationService/GetApplication "{$app}" NotFound APPLICATION_NOT_FOUND

# 12. Information about the server.
call ServerService/GetServerInfo "{}" '"version"' STORE_KIND_ '"units_max"' '"storeEpoch"' multiplex_watches

uncalled=$(grep -vxF -f <(tr / . <"$scratch/called") "$scratch/methods" || true)
[ -z "$uncalled" ] || fail "listed by reflection and not called here: $uncalled"
echo "called all $(wc -l <"$scratch/methods") methods of $(wc -l <"$scratch/ours") services"
