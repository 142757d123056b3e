-- Notes which master serves a bucket, and returns the epoch floor of that master. Another master,
-- or the same one after a restart, may lack acknowledged writes. So its floor is the millisecond in
-- which it was first seen (times 4096), which is above all values given out before.

local state, known = KEYS[1], ARGV[1]
-- Multiples of the first are exact in Lua's floating point numbers, even above 2^53. The second
-- raises the floor even if the clock was set back.
local counts_per_millisecond, counts_per_master = 4096, 1048576

local replication = redis.call('INFO', 'replication')
local master = string.match(replication, 'master_replid:(%x+)') or ''
local noted = redis.call('HMGET', state, 'master', 'counts_above')
local above = tonumber(noted[2] or '0')
if noted[1] == master and (known == '' or tonumber(known) <= above) then
  return string.format('%.0f', above)
end
if noted[2] or known ~= '' then
  above = math.max(above, tonumber(known) or 0) + counts_per_master
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  above = math.max(above, now * counts_per_millisecond)
end
above = string.format('%.0f', above)
redis.call('HSET', state, 'master', master, 'counts_above', above)
return above
