-- Counts a data loss once, however many replicas detect it: a caller with an older epoch takes over
-- the stored one. Creates the record again if it is gone.

local meta = KEYS[1]
local format, buckets, store_id, seen = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if redis.call('EXISTS', meta) == 0 then
  redis.call('HSET', meta, 'format', format, 'buckets', buckets, 'store_id', store_id,
    'losses', seen + 1)
elseif tonumber(redis.call('HGET', meta, 'losses')) <= seen then
  redis.call('HSET', meta, 'losses', seen + 1)
end
return redis.call('HMGET', meta, 'format', 'buckets', 'store_id', 'losses')
