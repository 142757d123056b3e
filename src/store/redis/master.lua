-- Notes which master serves a bucket, and returns {epoch floor of that master, history id}. Another
-- master, or the same one after a restart, may lack acknowledged writes. So its floor is the
-- millisecond in which it was first seen (times 4096), which is above all values given out before.
--
-- ARGV has the epoch floor and the history id that the process knows, '' and '' if none. The history
-- id is created with the state of the bucket. If it differs from the known one, the bucket was
-- emptied and filled again, perhaps by a process that knows no floor: the floor rises too.

local state, known, known_history = KEYS[1], ARGV[1], ARGV[2]
-- Multiples of the first are exact in Lua's floating point numbers, even above 2^53. The second
-- raises the floor even if the clock was set back.
local counts_per_millisecond, counts_per_master = 4096, 1048576

local replication = redis.call('INFO', 'replication')
local master = string.match(replication, 'master_replid:(%x+)') or ''
local noted = redis.call('HMGET', state, 'master', 'counts_above', 'history')
local above, history = tonumber(noted[2] or '0'), noted[3]
local time = redis.call('TIME')
if not history then
  history = string.sub(master, 1, 8) .. '-' .. time[1] .. '-' .. time[2]
  redis.call('HSET', state, 'history', history)
end
local is_known = known == '' or tonumber(known) <= above and known_history == history
if noted[1] == master and is_known then
  return {string.format('%.0f', above), history}
end
if noted[2] or known ~= '' then
  above = math.max(above, tonumber(known) or 0) + counts_per_master
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  above = math.max(above, now * counts_per_millisecond)
end
above = string.format('%.0f', above)
redis.call('HSET', state, 'master', master, 'counts_above', above)
return {above, history}
