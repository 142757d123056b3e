-- Returns for each command in ARGV whether the caller may call it, without calling it.

if not redis.acl_check_cmd then
  return {}
end
local answers = {}
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do
    words[#words + 1] = word
  end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  answers[i] = not known and 'missing' or allowed and 'allowed' or 'denied'
end
return answers
