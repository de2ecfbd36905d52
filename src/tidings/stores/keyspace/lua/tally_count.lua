#!lua
-- tally_count: how many messages of a large conversation one member has not read, and how many mention them.
-- Atomic because all numbers must be of one moment.
-- KEYS  tally  rev
-- ARGV  epoch  line  cap  user_id  seen  blocked_count  [blocked_id ...  low high ...]
--       seen: nothing at or below counts; low, high: ranges above it that were read singly
-- returns {state, count, is_capped, first, mentions, first_mention, last_ms, rev}
--         state 1 exact; 0 COLD; 2 the tally does not reach so far down: the tables must be asked. first and
--         first_mention 0: none; -1: not found here, the tables must be asked
-- cost O((1 + blocked + ranges) log n); above the cap a few times that
-- include tally
local tally, cap, user, seen = KEYS[1], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local blocked_count, tries_max = tonumber(ARGV[6]), 200
local t = opened(tally, ARGV[1], ARGV[2])
if not t or not t.is_warm then
  return {0, 0, 0, 0, 0, 0, 0, ''}
end
local who, low = tally .. ':who', math.max(seen, t.floor)

-- How many places of this kind have a number above `after`, up to `last` (nil: no end).
local function placed(kind, after, last)
  local upper = last and '[' .. kind .. ' ' .. padded(last) or '(' .. kind .. '!'
  return redis.call('ZLEXCOUNT', who, '(' .. kind .. ' ' .. padded(after), upper)
end

local hidden = {user} -- senders who do not count for this member
for i = 7, 6 + blocked_count do
  if placed('s' .. ARGV[i], low, nil) > 0 then
    hidden[#hidden + 1] = ARGV[i]
  end
end

local function is_hidden(sender)
  for _, id in ipairs(hidden) do
    if id == sender then
      return true
    end
  end
  return false
end

local function count_in(after, last)
  local n = redis.call('ZCOUNT', tally .. ':seq', '(' .. string.format('%d', after),
    last and string.format('%d', last) or '+inf')
  for _, id in ipairs(hidden) do
    n = n - placed('s' .. id, after, last)
  end
  return n
end

local function mentions_in(after, last)
  local n = placed('n' .. user, after, last) + placed('n*', after, last)
  for _, id in ipairs(hidden) do
    n = n - placed('a' .. id, after, last)
    if id ~= user then
      n = n - placed('b' .. id .. ' ' .. user, after, last)
    end
  end
  return n
end

-- Above this number, without the ranges.
local function above(after, counted)
  local n = counted(after, nil)
  for i = 7 + blocked_count, #ARGV, 2 do
    local from, last = math.max(tonumber(ARGV[i]) - 1, after), tonumber(ARGV[i + 1])
    if last > from then
      n = n - counted(from, last)
    end
  end
  return n
end

local function is_read(seq)
  for i = 7 + blocked_count, #ARGV, 2 do
    if seq >= tonumber(ARGV[i]) and seq <= tonumber(ARGV[i + 1]) then
      return true
    end
  end
  return false
end

local function number_at(rank)
  return tonumber(string.match(redis.call('ZRANGE', tally .. ':seq', rank, rank)[1], '^%d+'))
end

local count, is_capped = above(low, count_in), 0
if count > cap then -- mentions count as far down as the newest `cap` messages reach
  local bottom, top = 0, redis.call('ZCARD', tally .. ':seq')
  while top - bottom > 1 do
    local middle = math.floor((bottom + top) / 2)
    if above(math.max(number_at(middle) - 1, low), count_in) > cap then
      bottom = middle
    else
      top = middle
    end
  end
  count, is_capped, low = cap, 1, math.max(number_at(bottom), low)
elseif seen < t.floor then
  return {2, 0, 0, 0, 0, 0, t.last_ms, ''}
end

-- The oldest of these messages that the member has not read. 0: none; -1: there may be more than these, up to `limit`.
local function oldest(words, limit)
  for _, word in ipairs(words) do
    local seq, sender = string.match(word, '^(%d+) (%S+)')
    if not is_hidden(sender) and not is_read(tonumber(seq)) then
      return tonumber(seq)
    end
  end
  return #words < limit and 0 or -1
end

local first = count == 0 and 0 or -1
if count > 0 and seen >= t.floor then
  for _, limit in ipairs({4, tries_max}) do -- nearly always the next message is it
    local above_seen = '(' .. string.format('%d', seen)
    first = oldest(redis.call('ZRANGE', tally .. ':seq', above_seen, '+inf', 'BYSCORE', 'LIMIT', 0, limit), limit)
    if first >= 0 then
      break
    end
  end
end

local mentions, first_mention = above(low, mentions_in), 0
if mentions > 0 then
  for _, kind in ipairs({'n' .. user, 'n*'}) do
    local words = {}
    local places = redis.call('ZRANGE', who, '(' .. kind .. ' ' .. padded(low), '(' .. kind .. '!', 'BYLEX', 'LIMIT', 0,
      tries_max)
    for i = 1, #places do
      local seq = string.format('%d', tonumber(string.match(places[i], '(%d+)$')))
      words[i] = redis.call('ZRANGE', tally .. ':seq', seq, seq, 'BYSCORE')[1]
    end
    local found = oldest(words, tries_max)
    if found == -1 then
      first_mention = -1
    elseif found > 0 and first_mention >= 0 and (first_mention == 0 or found < first_mention) then
      first_mention = found
    end
  end
end
return {1, count, is_capped, first, mentions, first_mention, t.last_ms, redis.call('GET', KEYS[2]) or ''}
