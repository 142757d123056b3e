-- Returns the time of the store in microseconds, and by how much the clock of Redis is behind it.
--
-- The time of the store never goes back. If a new master's clock is behind the time that servers
-- know, the difference is stored and added, and every server reads the same sum. The difference
-- shrinks by a tenth of the time that passes, so that the store returns to the clock.

local clock, known = KEYS[1], tonumber(ARGV[1])
local tolerance = 1000000

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local noted = redis.call('HMGET', clock, 'behind', 'since')
local behind, since = tonumber(noted[1] or '0'), tonumber(noted[2] or '0')
behind = math.max(0, behind - math.floor(math.max(0, now - since) / 10))
if now + behind + tolerance < known then
  behind = known - now
  redis.call('HSET', clock, 'behind', string.format('%.0f', behind),
    'since', string.format('%.0f', now))
elseif noted[1] and behind == 0 then
  redis.call('DEL', clock)
end
return {string.format('%.0f', now + behind), string.format('%.0f', behind)}
