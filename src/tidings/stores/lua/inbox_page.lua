#!lua
-- inbox_page: a page of a user's inbox, newest first, with each conversation's mark and the totals.
-- Atomic because order, marks and totals must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  limit  after_score  after_id              (after_id '': from the top; else strictly after (score, id))
-- returns {} = COLD, else {size, total, convs, cold, id, score, mark, ...}   mark '': this conversation is COLD
-- cost O(log n + limit)
local inbox, mark = KEYS[1], KEYS[2]
local limit, after_score, after_id = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold')
if m[1] ~= ARGV[1] or not m[2] then
  return {}
end
if redis.call('ZCARD', inbox) ~= tonumber(m[2]) then
  redis.call('HDEL', mark, '*')
  redis.call('HINCRBY', mark, ':gen', 1)
  return {}
end
local start = 0
if after_id ~= '' then
  local score = redis.call('ZSCORE', inbox, after_id)
  if score and tonumber(score) == tonumber(after_score) then
    start = redis.call('ZREVRANK', inbox, after_id) + 1
  else
    -- The conversation has moved up or gone since: go on where it stood, past its equals that sort before it.
    start = redis.call('ZCOUNT', inbox, '(' .. after_score, '+inf')
    local tied = redis.call('ZCOUNT', inbox, after_score, after_score)
    while tied > 0 and redis.call('ZREVRANGE', inbox, start, start)[1] > after_id do
      start, tied = start + 1, tied - 1
    end
  end
end
local rows = redis.call('ZRANGE', inbox, start, start + limit - 1, 'REV', 'WITHSCORES')
local answer = {tonumber(m[2]), tonumber(m[3]), tonumber(m[4]), tonumber(m[5])}
local ids = {}
for i = 1, #rows, 2 do
  ids[#ids + 1] = rows[i]
end
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
