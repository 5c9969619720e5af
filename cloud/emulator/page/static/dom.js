// SPDX-License-Identifier: Apache-2.0

// How the page changes its elements. An element that stays is changed in place, so focus and selection stay as well.

// el makes an element. Text of children is never read as HTML.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// svg makes an element of SVG.
export function svg(tag) {
  return document.createElementNS("http://www.w3.org/2000/svg", tag);
}

export const byID = (id) => document.getElementById(id);

// say changes an element's text. Screen readers announce a status again when its text is set again, so equal text stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// keyed makes the children of a parent match the items, in their order. make builds the child of a new item, update changes a child.
export function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, i) => {
    const key = keyOf(item);
    let child = old.get(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    old.delete(key);
    update(child, item);
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
  });
  for (const child of old.values()) child.remove();
}
