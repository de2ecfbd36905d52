// The rules of a conversation, for those who lead it: who finds it, who writes in it.

import { field } from '../parts/controls.js';
import { el } from '../parts/dom.js';
import { t } from '../parts/words.js';

const RULES = { visibility: ['private', 'listed', 'open'], post: ['all', 'admins'] };

/** Fields that change a rule at once. `change(run)` runs a request and shows its error. */
export function rulesFields(client, conversation, { rules = {} }, change) {
  return el('div.rules', null, ...Object.entries(RULES).map(([name, values]) => {
    const known = rules[name] ?? values[0];
    const options = values.map((value) => el('option', { value, selected: value === known }, t(`${name}.${value}`)));
    const select = el('select', {
      id: `rule-${name}`, onchange: () => change(() => client.rules.change(conversation.id, { [name]: select.value })),
    }, ...options);
    return field(`rule-${name}`, t(name), select);
  }));
}
