-- Records in a bucket that it may have lost writes, and adds an entry to its log for the processes
-- that follow it. Raises the last position and the revision floor to what the caller has seen, so
-- none is used twice.

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
