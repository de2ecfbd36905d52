#!lua
-- unread_state: one conversation's mark, and the totals.
-- Atomic because both must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id                           (conversation_id '': the totals alone)
-- returns {} = COLD, else {total, convs, cold, mark}     mark '': this conversation is COLD, or not in the inbox
-- cost O(1)
local inbox, mark = KEYS[1], KEYS[2]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':put', ARGV[2])
if m[1] ~= ARGV[1] or not (m[2] and m[3] and m[4] and m[5]) then
  return {}
end
local size = tonumber(m[2])
local is_whole = redis.call('ZCARD', inbox) == size and redis.call('HLEN', mark) == 6 + size + (m[6] and 1 or 0)
if m[6] then -- the oldest note comes first
  local time = redis.call('TIME')
  local now, left = time[1] * 1000 + time[2] / 1000, {}
  if tonumber(string.match(m[6], '^%d+')) < now then
    is_whole = false -- left behind by a node that died; who came later is still at it
    for note in string.gmatch(m[6], '%S+') do
      if tonumber(string.match(note, '^%d+')) >= now then
        left[#left + 1] = note
      end
    end
    redis.call('HDEL', mark, ':put')
    if #left > 0 then
      redis.call('HSET', mark, ':put', table.concat(left, ' '))
    end
  end
end
if not is_whole then
  redis.call('HDEL', mark, '*')
  return {}
end
return {tonumber(m[3]), tonumber(m[4]), tonumber(m[5]), m[7] or ''}
