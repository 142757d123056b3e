-- Notes which master serves a bucket, and answers what its counts go on above. Another master, or
-- the same one started anew, may lack what was acknowledged: its counts begin with the millisecond
-- in which it was first seen, above all that can have been told by then.

local state, known = KEYS[1], ARGV[1]
-- Multiples of the first are exact in Lua's only kind of number, also above 2^53. The second is for
-- clocks that were put back.
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
