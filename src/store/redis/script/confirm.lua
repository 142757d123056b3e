-- Compares versions of applications with the stored ones, all on one master. Returns, for each of
-- them, false if the version is the newest one, or else {current revision, cause}. The cause is
-- 'revision', 'quiet' or 'master', as in commit.lua; after 'master' follows the epoch floor of the
-- bucket, '' if this master is not noted yet or the history is another one (master.lua). If the
-- caller has not read the newest version from the log, the answer is the id of the last entry
-- instead of false.
--
-- KEYS has heads, application, state and log of each. ARGV has whether a write must follow, and
-- then name, revision, count of quiet commits, epoch floor, history id and whether the version is
-- unread, of each.

local replication = redis.call('INFO', 'replication')
local master = string.match(replication, 'master_replid:(%x+)') or ''
local answers = {}
for i = 1, #KEYS / 4 do
  local heads, app, state, log = unpack(KEYS, 4 * i - 3, 4 * i)
  local name, revision, quiet, counts_above, history, unread = unpack(ARGV, 6 * i - 4, 6 * i + 1)
  local known = redis.call('HGET', heads, name)
  local current
  if known then
    current = string.match(known, '^(%d+) ')
  else
    current = redis.call('HGET', state, 'floor') or '0'
  end
  local noted = redis.call('HMGET', state, 'master', 'counts_above', 'history')
  local is_noted = noted[1] == master and noted[3] == history
  if not is_noted or noted[2] ~= counts_above then
    answers[i] = {current, 'master', is_noted and noted[2] or ''}
  elseif current ~= revision then
    answers[i] = {current, 'revision'}
  -- A mark follows the count if there are blocks.
  elseif string.match(redis.call('HGET', app, 'q') or '0', '^%d+') ~= quiet then
    answers[i] = {current, 'quiet'}
  elseif unread == '1' then
    local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
    answers[i] = last and last[1] or '0-0'
  else
    answers[i] = false
  end
end
-- A replica, and a master that may not write, refuse commands that write, even without effect: the
-- versions of such a server may be outdated. WAIT needs a command that has an effect.
if ARGV[1] == '1' then
  redis.call('HSET', KEYS[3], 'confirmed', '1')
else
  redis.call('HDEL', KEYS[3], 'confirmed')
end
return answers
