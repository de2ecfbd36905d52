#!lua
-- inbox_page: a page of a user's inbox, newest first, with each conversation's mark and the totals.
-- Atomic because order, marks and totals must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  limit  after_score  after_id  cap         (after_id '': from the top; else strictly after (score, id))
-- returns {} = COLD, else {left, total, convs, cold, id, score, mark, ...}   left: how many come after this page;
--         mark '': this conversation is COLD
-- cost O(log n + limit)
-- include whole
local inbox, mark = KEYS[1], KEYS[2]
local limit, after_score, after_id = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':put')
if not is_whole(inbox, mark, m, ARGV[1], ARGV[5]) then
  return {}
end

-- The server sorts by bytes; Lua's own comparison would follow the locale.
local function is_above(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

local start = 0
if after_id ~= '' then
  local score = redis.call('ZSCORE', inbox, after_id)
  if score and tonumber(score) == tonumber(after_score) then
    start = redis.call('ZREVRANK', inbox, after_id) + 1
  else
    -- The conversation has moved up or gone since: go on where it stood, past its equals that sort before it.
    start = redis.call('ZCOUNT', inbox, '(' .. after_score, '+inf')
    local stop = start + redis.call('ZCOUNT', inbox, after_score, after_score)
    while start < stop do
      local middle = math.floor((start + stop) / 2)
      if is_above(redis.call('ZREVRANGE', inbox, middle, middle)[1], after_id) then
        start = middle + 1
      else
        stop = middle
      end
    end
  end
end
local rows = redis.call('ZRANGE', inbox, start, start + limit - 1, 'REV', 'WITHSCORES')
local ids = {}
for i = 1, #rows, 2 do
  ids[#ids + 1] = rows[i]
end
local answer = {math.max(m[2] - start - #ids, 0), tonumber(m[3]), tonumber(m[4]), tonumber(m[5])}
if #ids == 0 then
  return answer
end
local marks = redis.call('HMGET', mark, unpack(ids))
for i = 1, #ids do
  answer[#answer + 1] = ids[i]
  answer[#answer + 1] = rows[2 * i]
  answer[#answer + 1] = marks[i] or ''
end
return answer
