-- mark: what a conversation adds to its user's totals and filters.
-- A packed mark is [version,cursor,seen,count,first,floor,day,mentions,first_mention,flags,ranges]. Its flags are a sum:
-- 1 quiet (out of the loud total), 2 muted, 4 archived, 8 pinned, 64 large, 128 nobody is blocked by
-- the user (of large ones), and 16 times the kind.
-- A large conversation counts nothing here. Its first_mention is the line: when it became large, ms.
-- A filter is a sorted set beside the inbox: unread, mentions, muted and archived by the time of the last message, pinned
-- by minus the time of the pin. What is archived is there instead of in the inbox. What is large is in `large` instead,
-- and in no filter but pinned. `:more` holds, with blanks between: the unread of the quiet ones, all unread mentions, and
-- the sizes of mentions, muted, archived, pinned and large.
local function has(flags, bit)
  return math.floor(flags / bit) % 2 == 1
end

-- The totals of a warm user; nil: COLD.
local function totals_of(mark, epoch)
  local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':more', ':put')
  if m[1] ~= epoch or not (m[2] and m[3] and m[4] and m[5] and m[6]) then
    return nil
  end
  local t = {}
  t.size, t.unread, t.convs, t.cold, t.put = tonumber(m[2]), tonumber(m[3]), tonumber(m[4]), tonumber(m[5]), m[7]
  local quiet, mentions, mentioned, muted, archived, pinned, large =
    string.match(m[6], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  t.quiet, t.mentions, t.mentioned = tonumber(quiet), tonumber(mentions), tonumber(mentioned)
  t.muted, t.archived, t.pinned, t.large = tonumber(muted), tonumber(archived), tonumber(pinned), tonumber(large)
  return t
end

local function packed_more(t)
  return string.format('%d %d %d %d %d %d %d', t.quiet, t.mentions, t.mentioned, t.muted, t.archived, t.pinned, t.large)
end

local function keep_totals(mark, t)
  redis.call('HSET', mark, '*', t.size, ':unread', t.unread, ':convs', t.convs, ':cold', t.cold, ':more', packed_more(t))
end

-- What the mark counts, taken out of the totals and of the filters for unread ones: it is COLD or gone from here on.
local function withdraw(inbox, t, id, packed, cap)
  local seen, count, floor, mentions, flags =
    string.match(packed, '^%[%d+,%d+,(%d+),(%d+),%d+,(%d+),%d+,(%d+),%d+,(%d+),')
  local shown = tonumber(floor) > tonumber(seen) and tonumber(cap) or tonumber(count)
  t.unread = t.unread - shown
  if has(flags, 1) then
    t.quiet = t.quiet - shown
  end
  if shown > 0 then
    t.convs = t.convs - 1
    redis.call('ZREM', inbox .. ':unread', id)
  end
  if tonumber(mentions) > 0 then
    t.mentions, t.mentioned = t.mentions - mentions, t.mentioned - 1
    redis.call('ZREM', inbox .. ':mentions', id)
  end
end

-- Put it into a set with this score, or (nil) take it out. Answers by how much the set grew.
local function listed(set, score, id, ttl_s)
  if not score then
    return -redis.call('ZREM', set, id)
  end
  local added = redis.call('ZADD', set, score, id)
  if added == 1 then
    redis.call('EXPIRE', set, ttl_s)
  end
  return added
end

-- What the mark counts, put into the totals, the filters and the right home.
local function enter(inbox, t, id, packed, cap, score, pinned_ms, ttl_s)
  local seen, count, floor, mentions, flags =
    string.match(packed, '^%[%d+,%d+,(%d+),(%d+),%d+,(%d+),%d+,(%d+),%d+,(%d+),')
  local shown = tonumber(floor) > tonumber(seen) and tonumber(cap) or tonumber(count)
  t.unread = t.unread + shown
  if has(flags, 1) then
    t.quiet = t.quiet + shown
  end
  if shown > 0 then
    t.convs = t.convs + listed(inbox .. ':unread', score, id, ttl_s)
  end
  if tonumber(mentions) > 0 then
    t.mentions, t.mentioned = t.mentions + mentions, t.mentioned + listed(inbox .. ':mentions', score, id, ttl_s)
  end
  local is_large = has(flags, 64)
  local is_archived = has(flags, 4) and not is_large
  if is_large or t.large > 0 then
    t.large = t.large + listed(inbox .. ':large', is_large and score or nil, id, ttl_s)
  end
  t.size = t.size + listed(inbox, not is_archived and not is_large and score or nil, id, ttl_s)
  t.archived = t.archived + listed(inbox .. ':archived', is_archived and score or nil, id, ttl_s)
  t.muted = t.muted + listed(inbox .. ':muted', has(flags, 2) and not is_large and score or nil, id, ttl_s)
  t.pinned = t.pinned + listed(inbox .. ':pinned', has(flags, 8) and -pinned_ms or nil, id, ttl_s)
end

-- The set that lists the conversation: the inbox, archived or large. nil: none.
local function home_of(inbox, id)
  for _, name in ipairs({'', ':archived', ':large'}) do
    if redis.call('ZSCORE', inbox .. name, id) then
      return inbox .. name
    end
  end
  return nil
end

-- Put id, score and mark of each large conversation behind an answer.
local function add_large(inbox, mark, answer)
  local rows = redis.call('ZRANGE', inbox .. ':large', 0, -1, 'WITHSCORES')
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]
  end
  for first = 1, #ids, 1000 do -- Lua unpacks fewer than 8,000 values
    local marks = redis.call('HMGET', mark, unpack(ids, first, math.min(first + 999, #ids)))
    for i = 1, #marks do
      local at = #answer
      answer[at + 1], answer[at + 2], answer[at + 3] = ids[first + i - 1], rows[2 * (first + i - 1)], marks[i] or ''
    end
  end
end

-- One more change of something COLD, as a number that no other change has.
local function next_gen(mark)
  return string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1))
end

-- A change while all of the user is COLD: a rebuild under way takes it in.
local function note_cold(mark, id, score, ttl_s)
  if score == 0 then
    redis.call('HSETNX', mark, '+' .. id, 0)
  elseif score >= tonumber(redis.call('HGET', mark, '+' .. id) or 0) then
    redis.call('HSET', mark, '+' .. id, string.format('%.0f', score))
  end
  if redis.call('HLEN', mark) == 1 then
    redis.call('EXPIRE', mark, ttl_s)
  end
end
