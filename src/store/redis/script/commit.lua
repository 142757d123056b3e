-- Commits a transition of one application: compares its version, and writes all or nothing.
--
-- Returns {1, id of the log entry or ''} after success, and the index of blocks ('b') if the commit
-- wrote and the application has any. Returns {0, current revision, cause} after a
-- conflict, and has written nothing. The cause is 'revision', 'quiet' (a quiet commit is missing),
-- 'overtaken' (a later commit of the writer was applied), 'request' (an answer exists), or 'master'
-- (the state was read from another master or history). After 'master' follows the epoch floor of the
-- bucket, '' if this master is not noted yet or the history is another one (master.lua).
--
-- Numbers are compared as text or stay below 2^53, because Lua has only floating point numbers.
--
-- Without arguments, the script removes the notes of other masters from the states of buckets. Each
-- pipeline begins with such a call, because INFO takes longer than the comparisons of a commit.
--
-- Calls from Lua are most of the cost of a commit of a few records, so the common one has eight, and two
-- more if the application's own status changes.

if #ARGV == 0 then
  local replication = redis.call('INFO', 'replication')
  local master = string.match(replication, 'master_replid:(%x+)') or ''
  for _, bucket in ipairs(KEYS) do
    if redis.call('HGET', bucket, 'master') ~= master then
      redis.call('HDEL', bucket, 'master')
    end
  end
  return 1
end

local heads, app, log, events, state, tombs, own_events = unpack(KEYS)
-- The names and their order are those of the list in arguments.rs.
local name, base, writer, seq, revision, head, clears, deleted, body, log_max,
  events_max, events_cutoff, tombs_max, app_prefix, events_prefix, base_quiet, quiet,
  counts_above, history, own_max, own_cutoff, own_prefix,
  answer_count, set_count, removed_count, event_count,
  block, status_count, removed_statuses, others = unpack(ARGV, 1, 30)
-- The set fields begin with the new answers to requests.
answer_count, set_count = tonumber(answer_count), tonumber(set_count)
removed_count, event_count = tonumber(removed_count), tonumber(event_count)
-- The statuses are a block, or, if they are few, the last fields to set and to remove.
status_count, removed_statuses = tonumber(status_count), tonumber(removed_statuses)
local sets_at = 31
local removed_at = sets_at + 2 * set_count
local events_at = removed_at + removed_count

-- The writer sent this commit before and lost the answer: return the first answer.
local own = redis.call('HMGET', app, 'w', 'q', 'b')
local marks, known_quiet, blocks = own[1] or '', own[2] or '0', own[3] or nil
local done, done_id = string.match(marks, writer .. ':(%d+):([%d%-]*);')
if done == seq then
  -- Written again, so that a following WAIT or WAITAOF covers the first write.
  redis.call('HSET', app, 'w', marks)
  return {1, done_id, blocks}
end

local known = redis.call('HGET', heads, name)
local current, position
if known then
  current, position = string.match(known, '^(%d+) (%d+) ')
else
  current = redis.call('HGET', state, 'floor') or '0'
end
-- Quiet commits do not move the revision, but the writer must have seen them.
if blocks then
  -- Blocks, read: a mark follows the count, so that a process of a version without blocks is refused.
  known_quiet = string.match(known_quiet, '^%d+')
end
local missed_quiet = base_quiet ~= '' and base_quiet ~= known_quiet
-- On another master or in another history, one revision can name another state.
local noted = redis.call('HMGET', state, 'master', 'counts_above', 'history')
local is_noted = noted[1] and noted[3] == history
if not is_noted or noted[2] ~= counts_above then
  return {0, current, 'master', is_noted and noted[2] or ''}
end
if current ~= base then
  return {0, current, 'revision'}
end
if missed_quiet then
  return {0, current, 'quiet'}
end
-- A sequence below the last one of its writer belongs to a commit that was given up long ago and
-- arrives late.
if done and tonumber(seq) < tonumber(done) then
  return {0, current, 'overtaken'}
end
-- Other writers are not notified of an answer that a quiet commit stored. A writer that answers the
-- same request must load that answer.
for i = sets_at, sets_at + 2 * (answer_count - 1), 2 do
  if redis.call('HEXISTS', app, ARGV[i]) == 1 then
    return {0, current, 'request'}
  end
end
local moves = revision ~= base
-- Nothing to write, or a quiet commit of an application that is unknown and stays so.
if not moves and (set_count + removed_count + #block == 0 or not known) then
  if known and marks ~= '' then
    -- As above: the caller of an empty commit wants to know whether the stored state is durable.
    redis.call('HSET', app, 'w', marks)
  end
  return {1, ''}
end

if clears == '1' then
  -- The answers survive a deletion, because the writer may not know all of them.
  local answers = {}
  for _, field in ipairs(redis.call('HKEYS', app)) do
    if string.sub(field, 1, 1) == 'r' then
      answers[#answers + 1] = field
      answers[#answers + 1] = redis.call('HGET', app, field)
    end
  end
  redis.call('DEL', app)
  for i = 1, #answers, 1000 do
    redis.call('HSET', app, unpack(answers, i, math.min(i + 999, #answers)))
  end
  known_quiet, blocks = '0', nil
end
local sets_end, removed_end = removed_at - 1, events_at - 1
-- Blocks, written: after this section, `sets_end` and `removed_end` leave out what a block has, and `blocks`
-- is the index that is stored. No other code of the script knows how statuses are stored.
if blocks and block == '' and status_count > 0 then
  -- A block is newer than all single fields, so few statuses become a block too.
  local parts = {}
  sets_end = sets_end - 2 * (status_count - removed_statuses)
  removed_end = removed_end - removed_statuses
  for i = sets_end + 1, removed_at - 1, 2 do
    local field, record = ARGV[i], ARGV[i + 1]
    parts[#parts + 1] = #field .. ' ' .. #record .. ' ' .. field .. record
  end
  for i = removed_end + 1, events_at - 1 do
    parts[#parts + 1] = #ARGV[i] .. ' - ' .. ARGV[i]
  end
  block = table.concat(parts)
end
if block ~= '' then
  local born, first, after, entries = revision, '0', '0', 0
  if blocks then
    born, first, after, entries = string.match(blocks, '^(%d+) (%d+) (%d+) (%d+)$')
  end
  blocks = string.format('%s %s %.0f %.0f', born, first, after + 1, entries + status_count)
  redis.call('HSET', app, 'g' .. after, block, 'b', blocks, 'q', quiet .. 'g')
elseif quiet ~= known_quiet then
  redis.call('HSET', app, 'q', blocks and quiet .. 'g' or quiet)
end
-- Few fields are written together with the mark, unless a removal must follow them.
local with_mark = removed_end < removed_at and sets_end - sets_at < 1000
if not with_mark then
  -- The chunk size is one that Lua's stack certainly takes.
  for i = sets_at, sets_end, 1000 do
    redis.call('HSET', app, unpack(ARGV, i, math.min(i + 999, sets_end)))
  end
end
for i = removed_at, removed_end, 1000 do
  redis.call('HDEL', app, unpack(ARGV, i, math.min(i + 999, removed_end)))
end

-- The application's own events and the others have a budget each.
local adds_other, adds_own
for i = events_at, events_at + 4 * (event_count - 1), 4 do
  local is_own = ARGV[i + 3] == '1'
  local to = is_own and own_events or events
  redis.call('XADD', to, ARGV[i] .. '-0', 't', ARGV[i + 1], 'e', ARGV[i + 2])
  adds_own, adds_other = adds_own or is_own, adds_other or not is_own
end
local function trim(stream, max, cutoff)
  redis.call('XTRIM', stream, 'MAXLEN', max)
  -- Usually the oldest event is young enough, so the first look reads only one.
  local count = 1
  while true do
    local last_old
    for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', count)) do
      if cutoff <= tonumber(entry[2][2]) then
        break
      end
      last_old = entry[1]
    end
    if not last_old then
      break
    end
    redis.call('XTRIM', stream, 'MINID', (string.gsub(last_old, '-0$', '-1')))
    count = 64
  end
end
if adds_other then
  trim(events, events_max, tonumber(events_cutoff))
end
if adds_own then
  trim(own_events, own_max, tonumber(own_cutoff))
end

local tomb_count = 0
if moves then
  position = string.format('%.0f', redis.call('HINCRBY', state, 'last', 1))
  if deleted == '1' then
    redis.call('ZADD', tombs, position, name)
  end
  tomb_count = redis.call('ZCARD', tombs)
  if deleted ~= '1' and tomb_count > 0 then
    tomb_count = tomb_count - redis.call('ZREM', tombs, name)
  end
end
redis.call('HSET', heads, name, revision .. ' ' .. position .. ' ' .. head)

local id = ''
if moves then
  local entry = {'a', name, 'p', position, 'h', head, 'w', writer .. ':' .. seq}
  if body ~= '' then
    local is_followed = others == '*'
    for other in string.gmatch(marks, '(%x+):[^;]*;') do
      is_followed = is_followed or other ~= writer and string.find(others, other .. ';', 1, true)
    end
    if is_followed then
      entry[#entry + 1] = 't'
      entry[#entry + 1] = body
    end
  end
  local forgotten
  local kept, seconds = tonumber(tombs_max), 60
  if kept < 0 then
    -- A repair: other processes that have seen what was lost must find the tombstones too.
    redis.call('HSET', state, 'keeps_until', redis.call('TIME')[1] + seconds)
    kept = tomb_count
  elseif kept < tomb_count then
    local left = tonumber(redis.call('HGET', state, 'keeps_until') or '0') - redis.call('TIME')[1]
    -- The clock may have been set back. And no commit prunes so many that Redis stands still.
    kept = 0 < left and left <= seconds and tomb_count or math.max(kept, tomb_count - 64)
  end
  while kept < tomb_count do
    tomb_count = tomb_count - 1
    local oldest = redis.call('ZPOPMIN', tombs)
    local gone
    gone, forgotten = oldest[1], oldest[2]
    local gone_head = redis.call('HGET', heads, gone)
    local gone_revision = gone_head and string.match(gone_head, '^(%d+) ') or '0'
    local floor = redis.call('HGET', state, 'floor') or '0'
    if tonumber(floor) < tonumber(gone_revision) then
      redis.call('HSET', state, 'floor', gone_revision)
    end
    redis.call('HDEL', heads, gone)
    -- These keys are not declared, but have the same hash tag as the declared ones.
    redis.call('DEL', app_prefix .. gone, events_prefix .. gone, own_prefix .. gone)
  end
  if forgotten then
    redis.call('HSET', state, 'forgotten', forgotten)
    entry[#entry + 1] = 'f'
    entry[#entry + 1] = forgotten
    entry[#entry + 1] = 'g'
    entry[#entry + 1] = redis.call('HGET', state, 'floor') or '0'
  end
  id = redis.call('XADD', log, 'MAXLEN', '~', log_max, '*', unpack(entry))
end

-- A tombstone may be the oldest one and gone. Only the last few processes have a mark: a resend
-- comes within seconds, and a process without a mark loads the application.
if deleted ~= '1' or redis.call('HEXISTS', heads, name) == 1 then
  local kept = {writer .. ':' .. seq .. ':' .. id .. ';'}
  for other, mark in string.gmatch(marks, '(%x+):([^;]*);') do
    if other ~= writer and #kept < 32 then
      kept[#kept + 1] = other .. ':' .. mark .. ';'
    end
  end
  kept = table.concat(kept)
  if with_mark then
    redis.call('HSET', app, 'w', kept, unpack(ARGV, sets_at, sets_end))
  else
    redis.call('HSET', app, 'w', kept)
  end
end
return {1, id, blocks}
