-- Records that a process is alive. Returns the processes that are alive: id and time in
-- milliseconds, one after the other. The time is the store's time as the process knows it. A
-- process that is silent for too long is removed.

local replicas = KEYS[1]
local own, forget_after, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

redis.call('HSET', replicas, own, ARGV[3])

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
