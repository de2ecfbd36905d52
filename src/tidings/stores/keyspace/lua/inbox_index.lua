#!lua
-- inbox_index: show a batch of one conversation to some of its members: inbox order, unread, mentions, totals, filters.
-- Atomic because inbox, sets, mark and totals of a member must move together, and a mark must not be read half-built.
-- KEYS  inbox  mark  unread  ws  [inbox  mark  unread  ws ...]
--       of each member; the members of one call have their keys on one server
-- ARGV  epoch  who  conversation_id  score_ms  cap  unread_ttl_s  now_ms  removed_count  [removed_seq ...  seq ...]
--       who: a digit for each member, 1 = the seqs count for the member, 0 = none of them does; score_ms 0: the inbox
--       does not move; now_ms 0: leases are not wanted; a seq has an @ behind it where it mentions these members
-- returns {{state, shown, is_capped, total, leases, version, mentions, all_mentions, convs}, ...}, of each member
--         state 1 warm, 0 this conversation is COLD, 2 it is and was archived, -1 all of the user is; version: of the
--         mark, and of the status that it was made from; total -1: not known now, or some are large. A COLD one is
--         recorded as changed: a rebuild takes it in.
-- cost O(members * seqs log n)
-- include mark
-- include jitter
local epoch, who, id, score, cap = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local unread_ttl_s, now_ms, removed_count = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local first_removed, last_removed = 9, 8 + removed_count

-- What a member adds who has read none of the seqs: the same for nearly all. The score is the number itself: times
-- may repeat and go back.
local fresh, lowest_fresh, has_mentions = {}, nil, false
for i = last_removed + 1, #ARGV do
  local seq = tonumber(ARGV[i])
  has_mentions = has_mentions or not seq
  if seq then
    lowest_fresh = lowest_fresh and math.min(lowest_fresh, seq) or seq
    fresh[#fresh + 1] = ARGV[i]
    fresh[#fresh + 1] = ARGV[i]
  end
end

local function user_is_cold(mark, leases)
  note_cold(mark, id, score, unread_ttl_s)
  return {-1, 0, 0, -1, leases, 0, 0, 0, 0}
end

-- It leaves the totals. A set may have been made anew, without an expiry, and an install puts another in place.
local function go_cold(inbox, mark, unread, packed, leases, state)
  local t = totals_of(mark, epoch)
  if packed then
    withdraw(inbox, t, id, packed, cap)
  end
  redis.call('UNLINK', unread, unread .. ':@')
  t.cold = t.cold + 1
  keep_totals(mark, t)
  redis.call('HSET', mark, '~' .. id, next_gen(mark))
  redis.call('HDEL', mark, id)
  return {state or 0, 0, 0, -1, leases, 0, 0, 0, 0}
end

local function is_read(seq, seen, ranges)
  if seq <= seen then
    return true
  end
  for low, high in string.gmatch(ranges, '(%d+),(%d+)') do
    if seq >= tonumber(low) and seq <= tonumber(high) then
      return true
    end
  end
  return false
end

local function show(inbox, mark, unread, ws, is_counted)
  local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', ':more', id)
  local packed, leases = m[7], {}
  if now_ms > 0 then
    leases = redis.call('ZRANGE', ws, now_ms, '+inf', 'BYSCORE')
  end

  if m[1] ~= epoch or not (m[2] and m[3] and m[4] and m[5] and m[6]) then
    return user_is_cold(mark, leases)
  end

  local has_more = m[6] ~= '0 0 0 0 0 0 0' -- most users have nothing muted, archived, pinned, large or mentioned
  if not packed then
    local home = home_of(inbox, id)
    if score > 0 and redis.call('ZADD', home or inbox, 'GT', score, id) == 1 then
      redis.call('HSET', mark, '*', m[2] + 1)
      if m[2] == '0' then
        redis.call('EXPIRE', inbox, unread_ttl_s)
      end
      return go_cold(inbox, mark, unread, packed, leases)
    end
    if redis.call('HEXISTS', mark, '~' .. id) == 1 then
      redis.call('HSET', mark, '~' .. id, next_gen(mark))
    elseif home then
      redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
      return user_is_cold(mark, leases)
    end
    return {0, 0, 0, -1, leases, 0, 0, 0, 0}
  end

  local version, cursor, seen, count, first, floor, day, mentions, first_mention, flags, ranges =
    string.match(packed, '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(.*)%]$')
  seen, count, first, floor, day = tonumber(seen), tonumber(count), tonumber(first), tonumber(floor), tonumber(day)
  mentions, first_mention, flags = tonumber(mentions), tonumber(first_mention), tonumber(flags)
  if has(flags, 64) then
    -- It is not large any more, or the sender's member list is older than the line: the tables decide
    return go_cold(inbox, mark, unread, packed, leases)
  end
  local before, mentions_before, is_changed = floor > seen and cap or count, mentions, false
  local shown = before

  if score > 0 and flags % 16 == 0 then
    if redis.call('ZADD', inbox, 'GT', score, id) == 1 then
      redis.call('HDEL', mark, '*') -- it has a mark, so the inbox was lost
      return user_is_cold(mark, leases)
    end
  elseif score > 0 then -- it is quiet, muted, archived or pinned
    local home = has(flags, 4) and inbox .. ':archived' or inbox
    if redis.call('ZADD', home, 'GT', score, id) == 1 then
      redis.call('HDEL', mark, '*')
      return user_is_cold(mark, leases)
    end
    if has(flags, 2) then
      redis.call('ZADD', inbox .. ':muted', 'XX', 'GT', score, id)
    elseif has(flags, 4) then
      -- It comes back with a message that is later than the flag, and only the tables know which is
      return go_cold(inbox, mark, unread, packed, leases, 2)
    end
  end

  local add, mention, lowest = {}, {}, nil
  local is_fresh = lowest_fresh and not has_mentions and lowest_fresh > seen and lowest_fresh > floor and ranges == ''
  if is_counted and is_fresh then
    add, lowest = fresh, lowest_fresh
  end
  for i = last_removed + 1, is_counted and not is_fresh and #ARGV or 0 do
    local word, is_mention = ARGV[i], false
    local seq = tonumber(word)
    if not seq then
      word, is_mention = string.sub(word, 1, -2), true
      seq = tonumber(word)
    end
    if not is_read(seq, seen, ranges) then
      if seq > floor then
        add[#add + 1] = word
        add[#add + 1] = word
        lowest = lowest and math.min(lowest, seq) or seq
        if is_mention then
          mention[#mention + 1] = word
          mention[#mention + 1] = word
        end
      elseif seq < first then -- trimmed before it came, but it may be the oldest
        first, is_changed = seq, true
      end
    end
  end
  local added, removed = 0, 0
  if #add > 0 then
    added = redis.call('ZADD', unread, unpack(add))
  end
  if removed_count > 0 and count + added > 0 then
    for i = first_removed, last_removed do
      if floor > seen and not is_read(tonumber(ARGV[i]), seen, ranges) then
        -- How many were trimmed is not known, so whether this is still capped is not either
        return go_cold(inbox, mark, unread, packed, leases)
      end
    end
    removed = redis.call('ZREM', unread, unpack(ARGV, first_removed, last_removed))
  end
  if #mention > 0 then
    mentions = mentions + redis.call('ZADD', unread .. ':@', unpack(mention))
  end
  if removed > 0 and mentions > 0 then
    mentions = mentions - redis.call('ZREM', unread .. ':@', unpack(ARGV, first_removed, last_removed))
  end
  if #add > 0 or (removed_count > 0 and count > 0) then
    local n = redis.call('ZCARD', unread)
    if n ~= count + added - removed then
      return go_cold(inbox, mark, unread, packed, leases)
    end
    if removed > 0 then
      local left = redis.call('ZRANGE', unread, 0, 0)[1]
      first = left and tonumber(left) or 0
    elseif added > 0 and (count == 0 or lowest < first) then
      first = lowest
    end
    if n > cap then
      floor = tonumber(redis.call('ZRANGE', unread, n - cap - 1, n - cap - 1)[1])
      redis.call('ZREMRANGEBYRANK', unread, 0, n - cap - 1)
      n = cap
      if mentions > 0 then
        mentions = mentions - redis.call('ZREMRANGEBYSCORE', unread .. ':@', '-inf', floor)
        if redis.call('ZCARD', unread .. ':@') ~= mentions then
          -- The set was lost, and with it which of the mentions were trimmed
          return go_cold(inbox, mark, unread, packed, leases)
        end
      end
    end
    if mentions ~= mentions_before or #mention > 0 or (removed > 0 and mentions > 0) then
      if redis.call('ZCARD', unread .. ':@') ~= mentions then
        -- The set was lost: what was removed may have been a mention
        return go_cold(inbox, mark, unread, packed, leases)
      end
      local left = redis.call('ZRANGE', unread .. ':@', 0, 0)[1]
      first_mention = left and tonumber(left) or 0
    end
    local today = math.floor(score / 86400000)
    if count == 0 or (today - day) * 172800 > unread_ttl_s then
      day = math.max(today, day)
      local ttl_s = jittered(unread_ttl_s)
      redis.call('EXPIRE', unread, ttl_s)
      redis.call('EXPIRE', mark, ttl_s)
      redis.call('EXPIRE', inbox, ttl_s)
      redis.call('EXPIRE', inbox .. ':unread', ttl_s)
      if has_more then
        for _, name in ipairs({'mentions', 'muted', 'archived', 'pinned', 'large'}) do
          redis.call('EXPIRE', inbox .. ':' .. name, ttl_s)
        end
      end
    end
    is_changed = is_changed or added > 0 or removed > 0
    count = n
    shown = floor > seen and cap or count
  end

  -- The filters move with the inbox.
  local total, quiet, all_mentions, is_known = m[3] + shown - before, 0, 0, m[5] == '0'
  if has_more then
    local large
    quiet, all_mentions, large = string.match(m[6], '^(%d+) (%d+) .* (%d+)$')
    is_known = is_known and large == '0'
  end
  local convs = m[4] + (shown > 0 and 1 or 0) - (before > 0 and 1 or 0)
  if before > 0 and shown > 0 then
    if score > 0 then
      redis.call('ZADD', inbox .. ':unread', 'XX', 'GT', score, id)
    end
  elseif before > 0 then
    redis.call('ZREM', inbox .. ':unread', id)
  elseif shown > 0 then
    local at = redis.call('ZSCORE', has(flags, 4) and inbox .. ':archived' or inbox, id)
    listed(inbox .. ':unread', at, id, unread_ttl_s)
  end
  if mentions ~= mentions_before or (has(flags, 1) and shown ~= before) then
    local t = totals_of(mark, epoch)
    t.mentions = t.mentions + mentions - mentions_before
    if has(flags, 1) then
      t.quiet = t.quiet + shown - before
    end
    if mentions == 0 then
      t.mentioned = t.mentioned - (mentions_before > 0 and 1 or 0)
      redis.call('ZREM', inbox .. ':mentions', id)
    elseif mentions_before == 0 then
      local at = redis.call('ZSCORE', has(flags, 4) and inbox .. ':archived' or inbox, id)
      t.mentioned = t.mentioned + listed(inbox .. ':mentions', at, id, unread_ttl_s)
      redis.call('EXPIRE', unread .. ':@', unread_ttl_s)
    end
    quiet, all_mentions, is_changed = t.quiet, t.mentions, true
    redis.call('HSET', mark, ':more', packed_more(t))
  end
  if mentions > 0 and mentions_before > 0 and score > 0 then
    redis.call('ZADD', inbox .. ':mentions', 'XX', 'GT', score, id)
  end
  if is_changed then
    redis.call('HSET', mark, ':unread', total, ':convs', convs, id,
      string.format('[%s,%s,%d,%d,%d,%d,%d,%d,%d,%d,%s]', version, cursor, seen, count, first, floor, day, mentions,
        first_mention, flags, ranges))
  end
  return {1, shown, floor > seen and 1 or 0, is_known and total - quiet or -1, leases, tonumber(version), mentions,
    tonumber(all_mentions), convs}
end

local answers = {}
for i = 1, #who do
  local at = 4 * i
  answers[i] = show(KEYS[at - 3], KEYS[at - 2], KEYS[at - 1], KEYS[at], string.sub(who, i, i) == '1')
end
return answers
