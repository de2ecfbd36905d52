#!lua
-- inbox_page: a page of a user's inbox, or of one of its filters, with each conversation's mark and the totals.
-- Atomic because order, marks and totals must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  limit  set  after_score  after_id  cap  kind  scan_max
--       set: `first` (the pinned ones, then the others), `inbox` (the others alone), or a filter
--       after_id '': from the top; else strictly after (score, id); kind '': any; scan_max: how many are passed over
-- returns {} = COLD, else {next_set, next_score, next_id, total, convs, cold, mentions, large, id, score, mark, ...}
--         next_set '': that was the end; score: of the last message; mark '': this conversation is COLD; large: how
--         many at the end of the answer are the large ones, which are in no page and not in the totals
-- cost O(log n + limit + those that are passed over: pinned ones, and other kinds)
-- include mark
-- include whole
local inbox, mark = KEYS[1], KEYS[2]
local limit, set, after_score, after_id = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local kind, left = tonumber(ARGV[7]), tonumber(ARGV[8])
local t = totals_of(mark, ARGV[1])
if not t or not is_whole(inbox, mark, t, ARGV[6]) then
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

local function rank_after(key)
  if after_id == '' then
    return 0
  end
  local score = redis.call('ZSCORE', key, after_id)
  if score and tonumber(score) == tonumber(after_score) then
    return redis.call('ZREVRANK', key, after_id) + 1
  end
  -- The conversation has moved up or gone since: go on where it stood, past its equals that sort before it.
  local start = redis.call('ZCOUNT', key, '(' .. after_score, '+inf')
  local stop = start + redis.call('ZCOUNT', key, after_score, after_score)
  while start < stop do
    local middle = math.floor((start + stop) / 2)
    if is_above(redis.call('ZREVRANGE', key, middle, middle)[1], after_id) then
      start = middle + 1
    else
      stop = middle
    end
  end
  return start
end

local answer = {'', 0, '', t.unread - t.quiet, t.convs, t.cold, t.mentions, t.large}
local found, last_score, last_id = 0, after_score, after_id

-- Take rows of one part in order. True: there is more, and the answer says where.
local function take(name)
  local key = (name == 'inbox' and inbox) or (name == 'first' and inbox .. ':pinned') or inbox .. ':' .. name
  local start = rank_after(key)
  while true do
    local rows = redis.call('ZRANGE', key, start, start + limit - found, 'REV', 'WITHSCORES')
    if #rows == 0 then
      return false
    end
    local ids = {}
    for i = 1, #rows, 2 do
      ids[#ids + 1] = rows[i]
    end
    local marks = redis.call('HMGET', mark, unpack(ids))
    for i = 1, #ids do
      local packed = marks[i] or ''
      local flags = string.match(packed, '^%[%d+,%d+,%d+,%d+,%d+,%d+,%d+,%d+,%d+,(%d+),') or 0
      if not (name == 'inbox' and has(flags, 8)) and not (kind and math.floor(flags / 16) % 4 ~= kind) then
        if found == limit then
          answer[1], answer[2], answer[3] = name, last_score, last_id
          return true
        end
        found = found + 1
        answer[#answer + 1] = ids[i]
        if name == 'first' then
          answer[#answer + 1] = redis.call('ZSCORE', home_of(inbox, ids[i]) or inbox, ids[i])
        else
          answer[#answer + 1] = rows[2 * i]
        end
        answer[#answer + 1] = packed
      elseif left == 0 then
        answer[1], answer[2], answer[3] = name, last_score, last_id
        return true
      else
        left = left - 1
      end
      last_score, last_id = rows[2 * i], ids[i]
    end
    start = start + #ids
  end
end

local function with_large()
  if t.large > 0 then
    add_large(inbox, mark, answer)
  end
  return answer
end

if set == 'first' then
  if take('first') then
    return with_large()
  end
  if found == limit then -- the next page begins with the others, if there are any
    answer[1] = t.size + t.large > t.pinned and 'inbox' or ''
    return with_large()
  end
  set, after_id = 'inbox', ''
end
take(set)
return with_large()
