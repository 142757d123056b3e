
// Parts that the script writes itself.
const OWN = new Set(['live', 'proof', 'alarm', 'keys']);

function keyOf(node) { return node.nodeType === 1 ? node.dataset.key || node.id : ''; }

// Makes a node equal to one of a new page. Nodes with a key stay the same ones.
function morph(own, next) {
  if (own.nodeType !== 1) {
    if (own.data !== next.data) own.data = next.data;
    return;
  }
  if (OWN.has(own.id) || own.nodeName === 'NOSCRIPT' || own.isSaid || own.isEqualNode(next)) return;
  if (own.id === 'apps') {
    takeRows(own, next);
    return;
  }
  morphAttributes(own, next);
  morphChildren(own, next);
}

function morphAttributes(own, next) {
  // Whether a fold is open is the choice of the reader.
  const isKept = (name) => name === 'open' || name.startsWith('data-own');
  for (const { name } of [...own.attributes]) if (!next.hasAttribute(name) && !isKept(name)) own.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (own.getAttribute(name) !== value && !isKept(name)) own.setAttribute(name, value);
  }
}

function morphChildren(own, next) {
  const kept = new Set([...next.children].map(keyOf));
  const keyed = new Map();
  for (const child of [...own.children]) {
    const key = keyOf(child);
    if (key && kept.has(key)) keyed.set(key, child);
    else if (key) child.remove();
  }
  let at = own.firstChild;
  for (const child of [...next.childNodes]) {
    const key = keyOf(child);
    const isAlike = at && !keyOf(at) && at.nodeName === child.nodeName;
    const old = key ? keyed.get(key) : isAlike ? at : null;
    if (!old || old.nodeName !== child.nodeName) own.insertBefore(child, at);
    else {
      if (old === at) at = at.nextSibling;
      else own.insertBefore(old, at);
      morph(old, child);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
