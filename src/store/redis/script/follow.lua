-- Adds a mark that a process follows an application, or removes all marks of the process. Other
-- processes then write the transitions of the application into the log, or need not (commit.lua). An
-- application that does not exist gets no mark.

local heads, app = KEYS[1], KEYS[2]
local name, own, follows = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', heads, name) == 0 then
  return 0
end
local marks = redis.call('HGET', app, 'w') or ''
local has_own = string.find(marks, own .. ':', 1, true)
if follows == '1' and not has_own then
  redis.call('HSET', app, 'w', own .. ':f;' .. marks)
elseif follows == '0' and has_own then
  marks = string.gsub(marks, own .. ':[^;]*;', '')
  if marks == '' then
    redis.call('HDEL', app, 'w')
  else
    redis.call('HSET', app, 'w', marks)
  end
end
return 1
