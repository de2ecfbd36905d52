// The emoji of the picker, by group, each with its shortcodes. The first code of each is its English name; the names in
// another language are in words/emoji-de.js and so on, and are loaded when somebody looks for an emoji.

import { folded } from '../parts/format.js';

const GROUPS = {
  people: `😀 grinning,😃 smiley,😄 smile,😁 grin,😆 laughing satisfied,😅 sweat_smile,🤣 rofl,😂 joy,🙂 slightly_smiling,🙃 upside_down,
😉 wink,😊 blush,😇 innocent,🥰 smiling_hearts,😍 heart_eyes,🤩 star_struck,😘 kissing_heart,😋 yum,😛 tongue,😜 wink_tongue,🤪 zany,
🤗 hugs,🤭 hand_over_mouth,🤫 shushing,🤔 thinking,🤐 zipper_mouth,🤨 raised_eyebrow,😐 neutral,😑 expressionless,😶 no_mouth,😏 smirk,
😒 unamused,🙄 rolling_eyes,😬 grimacing,😌 relieved,😔 pensive,😪 sleepy,😴 sleeping,😷 mask,🤒 thermometer_face,🤕 head_bandage,🤢 nauseated,
🤧 sneezing,🥵 hot,🥶 cold,🥴 woozy,😵 dizzy_face,🤯 exploding_head mind_blown,🥳 partying,😎 sunglasses cool,🤓 nerd,🧐 monocle,😕 confused,
😟 worried,🙁 slightly_frowning,😮 open_mouth wow,😯 hushed,😲 astonished,😳 flushed,🥺 pleading,😦 frowning,😨 fearful,😰 cold_sweat,😥 sad_relieved,
😢 cry,😭 sob,😱 scream,😖 confounded,😞 disappointed,😓 sweat,😩 weary,😫 tired,🥱 yawning,😤 triumph,😡 rage,😠 angry,🤬 cursing,😈 imp,💀 skull,
💩 poop,🤡 clown,👻 ghost,👽 alien,🤖 robot,🙈 see_no_evil,🙉 hear_no_evil,🙊 speak_no_evil`,
  hands: `👍 thumbsup +1 yes,👎 thumbsdown -1 no,👋 wave,🤚 raised_back,✋ raised_hand,🖖 vulcan,👌 ok_hand,🤏 pinching,✌️ v victory,🤞 crossed_fingers,
🤟 love_you,🤘 metal,🤙 call_me,👈 point_left,👉 point_right,👆 point_up,👇 point_down,☝️ index_up,✊ fist,👊 facepunch,👏 clap,🙌 raised_hands,
👐 open_hands,🤲 palms_up,🤝 handshake,🙏 pray thanks,✍️ writing_hand,💪 muscle,👀 eyes,🧠 brain,👶 baby,🧑 person,👩 woman,👨 man,🤷 shrug,🤦 facepalm,
🙋 raising_hand,💁 tipping_hand,🏃 running,💃 dancer,🚶 walking`,
  hearts: `❤️ heart,🧡 orange_heart,💛 yellow_heart,💚 green_heart,💙 blue_heart,💜 purple_heart,🖤 black_heart,🤍 white_heart,💔 broken_heart,💕 two_hearts,
💯 100,💥 boom,💫 dizzy,💦 sweat_drops,💤 zzz,🔥 fire,✨ sparkles,⭐ star,🌟 glowing_star,🎉 tada party,🎊 confetti,🎈 balloon,🎁 gift,🏆 trophy,🥇 first_place,
✅ check white_check_mark,☑️ ballot_check,❌ x,❗ exclamation,❓ question,⚠️ warning,🚫 no_entry,💡 bulb idea,🔔 bell,🔕 no_bell,📌 pushpin,📍 round_pushpin,
🔗 link,🔒 lock,🔑 key,⏰ alarm,⏳ hourglass,🚀 rocket,🐛 bug,🎯 dart,♻️ recycle,➕ plus,➖ minus`,
  nature: `🐶 dog,🐱 cat,🐭 mouse,🐹 hamster,🐰 rabbit,🦊 fox,🐻 bear,🐼 panda,🐨 koala,🐯 tiger,🦁 lion,🐮 cow,🐷 pig,🐸 frog,🐵 monkey,🐔 chicken,🐧 penguin,
🐦 bird,🦉 owl,🐝 bee,🦋 butterfly,🐢 turtle,🐍 snake,🐙 octopus,🐠 fish,🐬 dolphin,🐳 whale,🌵 cactus,🎄 christmas_tree,🌲 evergreen,🌴 palm,🍀 clover,🌹 rose,
🌸 blossom,🌻 sunflower,🌍 earth,🌙 moon,☀️ sun,⛅ cloud_sun,☁️ cloud,🌧️ rain,⛈️ storm,❄️ snowflake,🌈 rainbow,🌊 ocean,⚡ zap`,
  food: `🍏 green_apple,🍎 apple,🍐 pear,🍊 orange,🍋 lemon,🍌 banana,🍉 watermelon,🍇 grapes,🍓 strawberry,🍒 cherries,🍑 peach,🥑 avocado,🍅 tomato,🥕 carrot,
🌽 corn,🥔 potato,🍞 bread,🥐 croissant,🧀 cheese,🥚 egg,🍳 cooking,🥞 pancakes,🍔 burger,🍟 fries,🍕 pizza,🌮 taco,🍝 spaghetti,🍜 ramen,🍣 sushi,🍦 ice_cream,
🍰 cake,🎂 birthday,🍫 chocolate,🍿 popcorn,🍩 doughnut,🍪 cookie,☕ coffee,🍵 tea,🍺 beer,🍻 beers,🥂 cheers,🍷 wine,🍸 cocktail`,
  things: `⚽ soccer,🏀 basketball,🎾 tennis,🏓 ping_pong,🎮 game,🎲 die,🎸 guitar,🎵 note,🎧 headphones,🎬 clapper,📷 camera,📱 phone,💻 laptop,🖥️ desktop,
⌨️ keyboard,🖨️ printer,💾 floppy,📞 telephone,📺 tv,🔋 battery,💰 money,💳 card,✉️ envelope,📧 email,📦 package,📅 calendar,📈 chart,📉 chart_down,📊 bar_chart,
📋 clipboard,📁 folder,📚 books,📝 memo,✏️ pencil,🔍 mag,🛠️ tools,⚙️ gear,🚗 car,🚌 bus,🚲 bike,✈️ airplane,🚆 train,⛵ boat,🏠 house,🏢 office,🏖️ beach,
⛰️ mountain,🗺️ map,🏁 checkered_flag,🏳️‍🌈 rainbow_flag`,
};

/** { group: [{ sign, codes }] } */
export const EMOJI = Object.fromEntries(Object.entries(GROUPS).map(([group, text]) => [group,
  text.split(',').map((one) => {
    const [sign, ...codes] = one.trim().split(' ');
    return { sign, codes };
  })]));

const ALL = Object.values(EMOJI).flat();
const CODE_OF = new Map(ALL.map(({ sign, codes }) => [sign, codes[0]]));
const BY_CODE = new Map(ALL.flatMap((one) => one.codes.map((code) => [code, one.sign])));

let names = new Map(); // sign -> its name in the language of the page
let asked = null;

/** The name of a sign in the language of the page. */
export const nameOf = (sign) => names.get(sign) ?? (CODE_OF.get(sign) ?? sign).replaceAll('_', ' ');

/** Learn the names in a language. Without a connection they stay English until the next time. */
export function loadNames(language) {
  asked ??= language === 'en' ? Promise.resolve()
    : import(`/web/app/words/emoji-${language}.js`).then(({ default: table }) => learn(table), () => { asked = null; });
  return asked;
}

function learn(table) {
  names = new Map(Object.entries(EMOJI).flatMap(([group, ones]) => {
    const said = table[group].split(/,\s*/u);
    return ones.map(({ sign }, at) => [sign, said[at]]);
  }));
}

/** Emoji whose code or name begins with, or contains, a text. */
export function findEmoji(text, most) {
  const wanted = folded(text).replaceAll(' ', '_');
  const wordsOf = ({ sign, codes }) => [...codes, folded(nameOf(sign)).replaceAll(' ', '_')];
  const starts = ALL.filter((one) => wordsOf(one).some((word) => word.startsWith(wanted)));
  const holds = ALL.filter((one) => !starts.includes(one) && wordsOf(one).some((word) => word.includes(wanted)));
  return [...starts, ...holds].slice(0, most);
}

/** Replace `:smile:` by its sign, but not in code. */
export function withEmoji(text) {
  return text.split(/(```[\s\S]*?```|`[^`\n]*`)/u)
    .map((part, at) => (at % 2 ? part : part.replace(/:([a-z0-9_+-]+):/gu, (whole, code) => BY_CODE.get(code) ?? whole)))
    .join('');
}
