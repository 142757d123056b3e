-- Notes in a bucket that it may have lost writes: no position is given twice as far as the caller
-- has seen, and who follows the log is told.

local state, log = KEYS[1], KEYS[2]
local seen, floor, losses, log_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function at_least(field, value)
  local known = redis.call('HGET', state, field) or '0'
  if tonumber(known) < tonumber(value) then
    redis.call('HSET', state, field, value)
    return true
  end
  return false
end

at_least('last', seen)
at_least('floor', floor)
if at_least('losses', losses) then
  redis.call('XADD', log, 'MAXLEN', '~', log_max, '*', 'd', losses)
end
return 1
