-- Notes which master serves a bucket, and returns {epoch floor of that master, history id,
-- takeovers}. Another master, or the same one after a restart, may lack acknowledged writes. So its
-- floor is the millisecond of the store in which it was first seen (times 4096), which is above all
-- values given out before. The time is that of the process: it does not go back where the clock of
-- a server does, and a master whose note is lost was noted at an earlier time.
--
-- The takeovers have 'floor:position ' for each floor, oldest first: the last position that the
-- master had when it was first seen. What former masters put at later positions is lost. A floor
-- that rises under the same master has the highest position: nothing is lost with it.
--
-- ARGV has the epoch floor and the history id that the process knows, '' and '' if none, and the
-- time of the store in milliseconds, absent from a process of an earlier version. The history id is
-- created with the state of the bucket. If it differs from the known one, the bucket was emptied and
-- filled again, perhaps by a process that knows no floor. Then the floor rises too, unless another
-- process has raised it since.

local state, known, known_history, now = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
-- Multiples of the first are exact in Lua's floating point numbers, even above 2^53. The second
-- raises the floor even if the clock was set back.
local counts_per_millisecond, counts_per_master = 4096, 1048576
local takeovers_max = 32
local position_max = '18446744073709551615'

local replication = redis.call('INFO', 'replication')
local master = string.match(replication, 'master_replid:(%x+)') or ''
local noted = redis.call('HMGET', state, 'master', 'counts_above', 'history', 'last', 'takeovers')
local above, history = tonumber(noted[2] or '0'), noted[3]
local last, takeovers = noted[4] or '0', noted[5] or ''
local time = redis.call('TIME')

local function add_takeover(position)
  takeovers = takeovers .. string.format('%.0f:%s ', above, position)
  local _, count = string.gsub(takeovers, ':', '')
  if takeovers_max < count then
    takeovers = string.gsub(takeovers, '^%S+ ', '')
  end
end

if not history then
  history = string.sub(master, 1, 8) .. '-' .. time[1] .. '-' .. time[2]
  redis.call('HSET', state, 'history', history)
end
-- The first master, or one that a process of an earlier version has noted. Its position is not
-- known, so it counts as one that has nothing of the masters before it.
if string.match(takeovers, '(%d+):%d+ $') ~= string.format('%.0f', above) then
  add_takeover('0')
end
local is_same_history = known == '' or known_history == history
local least = (tonumber(known) or 0) + (is_same_history and 0 or counts_per_master)
local is_same_master = noted[1] == master
if is_same_master and least <= above then
  if takeovers ~= noted[5] then
    redis.call('HSET', state, 'takeovers', takeovers)
  end
  return {string.format('%.0f', above), history, takeovers}
end
if noted[2] or known ~= '' then
  above = math.max(above, tonumber(known) or 0) + counts_per_master
  now = now or tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  above = math.max(above, now * counts_per_millisecond)
  local is_kept = is_same_master and not is_same_history
  add_takeover(is_kept and position_max or last)
end
local floor = string.format('%.0f', above)
redis.call('HSET', state, 'master', master, 'counts_above', floor, 'takeovers', takeovers)
return {floor, history, takeovers}
