-- Returns {time of the store in microseconds, by how much it is ahead of the clock of Redis, the
-- outages}. The second number is negative if the time of the store is behind that clock. Records
-- that a process can act.
--
-- The time of the store advances at the pace of the processes, whatever the clock of Redis does. If
-- the clock of a new master, or a clock that was set, differs from the time that a process knows,
-- the difference is stored and added, and every process reads the same sum. A difference shrinks
-- slowly, so that the store returns to the clock. A process that stood still knows an old time;
-- that does not matter if another process was here meanwhile.
--
-- The time between two signs of life is an outage if it is long: no process could act. The answer
-- has also the one that continues. Redis may refuse writes; then no process can act.
--
-- ARGV: the time that the process knows, '0' at its start; its id; '1' if it can act; the latest
-- heartbeat of any process, '0' if none is known. All times are in microseconds.

local clock, known, own, acts = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local tolerance, outage_min, outages_max = 1000000, 3000000, 64
-- Each process gives a sign of life every second: one that is older does not confirm a time.
local confirmed_max = 2000000

local function text(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local noted = redis.call('HMGET', clock, 'behind', 'ahead', 'since', 'alive', 'by', 'outages')
local passed = math.max(0, now - tonumber(noted[3] or '0'))
-- The clock of Redis is behind, or ahead of, the time of the store by so much.
local behind = math.max(0, tonumber(noted[1] or '0') - math.floor(passed / 10))
local ahead = math.max(0, tonumber(noted[2] or '0') - math.floor(passed / 100))
local difference = behind - ahead
local alive, by, outages = tonumber(noted[4] or '0'), noted[5], noted[6] or ''
local beaten = tonumber(ARGV[4])

local latest = math.max(known, alive, beaten)
-- A process without an answer sends heartbeats too, so they count only while there is no sign of
-- life: processes of earlier versions give none.
if alive == 0 then
  alive = beaten
end
local reached = now + difference
local is_confirmed = by and by ~= own and reached - alive < confirmed_max
local is_set = false
if reached + tolerance < latest then
  difference, is_set = latest - now, true
elseif 0 < known and latest + tolerance < reached and not is_confirmed then
  difference, is_set = latest - now, true
elseif known == 0 and difference < 0 and outage_min <= reached - alive then
  -- No process has been here for a while: the store returns to the clock at once.
  difference, is_set = 0, true
end
reached = now + difference

if 0 < alive and outage_min <= reached - alive then
  outages = outages .. text(math.floor(alive / 1000)) .. '-' .. text(math.floor(reached / 1000))
    .. ' '
  local _, count = string.gsub(outages, '-', '')
  if outages_max < count then
    -- The two oldest are joined, as in domain/model/outage.rs.
    local a, b, c, d, rest = string.match(outages, '^(%d+)-(%d+) (%d+)-(%d+) (.*)$')
    outages = text(c - (b - a)) .. '-' .. d .. ' ' .. rest
  end
end
if is_set then
  redis.pcall('HDEL', clock, 'behind', 'ahead')
  if difference ~= 0 then
    local name = difference > 0 and 'behind' or 'ahead'
    redis.pcall('HSET', clock, name, text(math.abs(difference)), 'since', text(now))
  end
elseif difference == 0 and (noted[1] or noted[2]) then
  redis.pcall('HDEL', clock, 'behind', 'ahead', 'since')
end
if acts then
  redis.pcall('HSET', clock, 'alive', text(math.max(alive, reached)), 'by', own,
    'outages', outages)
end
return {text(reached), text(difference), outages}
