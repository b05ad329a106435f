"""What Redis does in one step, in Lua: each script runs whole or, when it raises at its top, not at all."""

READ = """
-- Delivers new entries to a consumer, and tells how many the cap of the stream has removed unread.
-- A group counts its entries from the first that the stream ever had; a removed one that it never got is
-- counted as read here, once, so that the next look sees only new losses.
local drafts, group, consumer, count = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local function named(flat)
  local fields = {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return fields
end

local state
if redis.call('EXISTS', drafts) == 1 then
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', drafts)) do
    local fields = named(flat)
    if fields['name'] == group then
      state = fields
    end
  end
end
if not state then
  return redis.error_reply('NOGROUP the consumer group does not exist')
end

local stream = named(redis.call('XINFO', 'STREAM', drafts))
local removed = stream['entries-added'] - stream['length']
local read = state['entries-read']
local last = state['last-delivered-id']
if not read and last == '0-0' then
  redis.call('XGROUP', 'SETID', drafts, group, last, 'ENTRIESREAD', removed)
end
local unread = 0
if read and removed > read then
  unread = removed - read
  redis.call('XGROUP', 'SETID', drafts, group, last, 'ENTRIESREAD', removed)
end
local answer = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', drafts, '>')
return {answer and answer[1][2] or {}, unread, stream['last-generated-id']}
"""

TAKE_OVER = """
-- Makes a consumer the owner of entries that were pending for too long, those delivered least often first;
-- what was delivered too often is put with the dead letters. None of this counts as a delivery.
local drafts, dead = KEYS[1], KEYS[2]
local group, consumer, idle, cursor, count, most, cap = unpack(ARGV)
redis.call('XLEN', dead)
local answer = redis.call('XAUTOCLAIM', drafts, group, consumer, idle, cursor, 'COUNT', count, 'JUSTID')
local taken, buried = {}, {}
for place, id in ipairs(answer[2]) do
  local deliveries = redis.call('XPENDING', drafts, group, id, id, 1)[1][4]
  if deliveries < tonumber(most) then
    taken[#taken + 1] = {deliveries, place, id}
  else
    local reason = 'delivered ' .. deliveries .. ' times without an answer'
    local fields = redis.call('XRANGE', drafts, id, id)[1][2]
    redis.call('XADD', dead, 'MAXLEN', '~', cap, '*', 'id', id, 'reason', reason, unpack(fields))
    redis.call('XACK', drafts, group, id)
    buried[#buried + 1] = id
  end
end
table.sort(taken, function(one, other)
  return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
end)
for place, entry in ipairs(taken) do
  taken[place] = entry[3]
end
return {answer[1], taken, buried, #answer[3]}
"""

SETTLE = """
-- Appends verdicts that are neither too late nor there already, and acknowledges their entries and others.
-- KEYS: drafts, tags, then a marker for each verdict. ARGV: group, cap of the tags, then for each verdict
-- the entry's id, until when it is wanted, a field and its value; then the ids of the other entries.
local drafts, tags, group, cap = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
redis.call('XLEN', tags)
redis.call('XLEN', drafts)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local late, known, at = 0, 0, 3
for i = 3, #KEYS do
  if now > tonumber(ARGV[at + 1]) then
    late = late + 1
  elseif redis.call('SET', KEYS[i], '', 'NX', 'PXAT', ARGV[at + 1]) then
    redis.call('XADD', tags, 'MAXLEN', '~', cap, '*', ARGV[at + 2], ARGV[at + 3])
  else
    known = known + 1
  end
  redis.call('XACK', drafts, group, ARGV[at])
  at = at + 4
end
for i = at, #ARGV do
  redis.call('XACK', drafts, group, ARGV[i])
end
return {late, known}
"""
