-- Notes that a process lives, by the store's clock, and answers who else does: id and moment in
-- milliseconds, one after the other. Who has been silent for too long is forgotten.

local replicas = KEYS[1]
local own, forget_after = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSET', replicas, own, string.format('%.0f', now))

local known = redis.call('HGETALL', replicas)
local living = {}
for i = 1, #known, 2 do
  if forget_after < now - tonumber(known[i + 1]) then
    redis.call('HDEL', replicas, known[i])
  else
    living[#living + 1] = known[i]
    living[#living + 1] = known[i + 1]
  end
end
return living
