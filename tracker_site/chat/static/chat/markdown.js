// Renders the part of Markdown that answers need: paragraphs, headings, lists, code, bold, italic.
// Invariant: the nodes are created one by one and never parsed from HTML, so model output can only become text.

const FENCE = /^\s*(```|~~~)\s*([\w+#.-]*)\s*$/;
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*/g;

/** Return a fragment with the nodes of a text; the text may be an unfinished answer. */
export function render(text) {
  const fragment = document.createDocumentFragment();
  const lines = text.split("\n");
  let index = 0;
  while (index < lines.length) {
    const fence = FENCE.exec(lines[index]);
    if (fence) {
      index = appendCode(fragment, lines, index + 1, fence);
    } else if (lines[index].trim() === "") {
      index += 1;
    } else {
      index = appendBlock(fragment, lines, index);
    }
  }
  return fragment;
}

function appendCode(fragment, lines, begin, [, mark, language]) {
  let end = begin;
  while (end < lines.length && lines[end].trim() !== mark) {
    end += 1;
  }
  const pre = element("pre");
  const code = element("code", lines.slice(begin, end).join("\n"));
  if (language) {
    pre.dataset.language = language;
  }
  pre.append(code);
  fragment.append(pre);
  return end + 1;
}

function appendBlock(fragment, lines, begin) {
  const heading = /^(#{1,6})\s+(.*)$/.exec(lines[begin]);
  if (heading) {
    fragment.append(inline(element(`h${Math.min(heading[1].length + 2, 6)}`), heading[2]));
    return begin + 1;
  }
  const first = listItem(lines[begin]);
  return first ? appendList(fragment, lines, begin, first) : appendParagraph(fragment, lines, begin);
}

// Blank lines between items do not end a list. A numbered list starts with the number of its first item.
function appendList(fragment, lines, begin, first) {
  const list = element(first.ordered ? "ol" : "ul");
  if (first.ordered) {
    list.start = first.number;
  }
  let end = begin;
  for (let index = begin; index < lines.length; index += 1) {
    const item = listItem(lines[index]);
    if (item?.ordered === first.ordered) {
      list.append(inline(element("li"), item.text));
      end = index + 1;
    } else if (lines[index].trim() !== "") {
      break;
    }
  }
  fragment.append(list);
  return end;
}

function appendParagraph(fragment, lines, begin) {
  let end = begin;
  while (end < lines.length && lines[end].trim() !== "" && !FENCE.test(lines[end])) {
    end += 1;
  }
  fragment.append(inline(element("p"), lines.slice(begin, end).join("\n")));
  return end;
}

function listItem(line) {
  const match = /^\s{0,3}(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/.exec(line);
  return match ? { ordered: match[2] !== undefined, number: Number(match[2]), text: match[3] } : null;
}

function inline(parent, text) {
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parent.append(text.slice(end, match.index));
    const [whole, , code, bold, italic] = match;
    const [name, content] = code !== undefined ? ["code", code] : bold !== undefined ? ["strong", bold] : ["em", italic];
    parent.append(element(name, content));
    end = match.index + whole.length;
  }
  parent.append(text.slice(end));
  return parent;
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
