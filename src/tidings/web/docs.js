// Renders /openapi.json as plain HTML. Everything is put in as text, never as markup.

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

const resolve = (api, schema) =>
  schema && schema.$ref ? api.components.schemas[schema.$ref.split('/').pop()] : schema;

// A schema in one line: what a reader wants to know first.
const describe = (api, schema) => {
  if (!schema) return 'any';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.anyOf) return schema.anyOf.map((one) => describe(api, one)).join(' | ');
  if (schema.type === 'array') return `[${describe(api, schema.items)}]`;
  return schema.type || 'any';
};

const fields = (api, schema) => {
  const whole = resolve(api, schema);
  if (!whole || !whole.properties) return element('p', {}, describe(api, schema));
  const required = new Set(whole.required || []);
  const rows = Object.entries(whole.properties).map(([name, field]) =>
    element('tr', {},
      element('td', {}, element('code', {}, name), required.has(name) ? '' : ' (optional)'),
      element('td', {}, element('code', {}, describe(api, field))),
      element('td', {}, field.description || '')));
  return element('table', {}, ...rows);
};

const parameters = (list, api) =>
  element('table', {}, ...list.map((one) =>
    element('tr', {},
      element('td', {}, element('code', {}, one.name), ` in ${one.in}`),
      element('td', {}, element('code', {}, describe(api, one.schema))),
      element('td', {}, (one.schema && one.schema.description) || ''))));

const bodyOf = (content) => content && content['application/json'] && content['application/json'].schema;

const answers = (api, responses) => {
  const made = [];
  for (const [status, response] of Object.entries(responses)) {
    const schema = bodyOf(response.content);
    made.push(element('h4', {}, `${status}: ${response.description}`));
    if (schema && Number(status) < 400) made.push(fields(api, schema));
  }
  return made;
};

const operation = (api, path, method, facts) => {
  const made = element('details', { id: facts.operationId },
    element('summary', {},
      element('span', { class: 'method' }, method.toUpperCase()), element('code', {}, path), ` ${facts.summary}`));
  if (facts.parameters) made.append(element('h4', {}, 'Parameters'), parameters(facts.parameters, api));
  if (facts.requestBody) {
    made.append(element('h4', {}, 'Body'), fields(api, bodyOf(facts.requestBody.content)));
  }
  made.append(...answers(api, facts.responses));
  return made;
};

const show = async () => {
  const place = document.getElementById('operations');
  try {
    const api = await (await fetch('/openapi.json')).json();
    const made = [];
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, facts] of Object.entries(methods)) made.push(operation(api, path, method, facts));
    }
    place.replaceChildren(...made);
  } catch (error) {
    place.replaceChildren(`The description could not be read: ${error.message}`);
  }
};

show();
