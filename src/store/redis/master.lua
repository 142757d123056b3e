-- Notes which master serves a bucket, and answers what its counts go on above. Another master, or
-- the same one started anew, may lack what was acknowledged: its counts begin with the second in
-- which it was first seen, above all that can have been told by then.

local state, known = KEYS[1], ARGV[1]
local counts_per_second = 1048576

local replication = redis.call('INFO', 'replication')
local master = string.match(replication, 'master_replid:(%x+)') or ''
local noted = redis.call('HMGET', state, 'master', 'counts_above')
local above = tonumber(noted[2] or '0')
if noted[1] == master and (known == '' or tonumber(known) <= above) then
  return string.format('%.0f', above)
end
if noted[1] or known ~= '' then
  above = math.max(above, tonumber(known) or 0) + counts_per_second
  above = math.max(above, tonumber(redis.call('TIME')[1]) * counts_per_second)
end
above = string.format('%.0f', above)
redis.call('HSET', state, 'master', master, 'counts_above', above)
return above
