"""A page of `pagelane report` as tests read it: texts and numbers, and what to ask
a browser for.
"""
import html.parser
import json

# How many pixels of a canvas are drawn on.
DRAWN = """[...document.querySelectorAll("canvas")].map((c) => {
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let n = 0;
  for (let i = 3; i < d.length; i += 4) n += d[i] > 0;
  return n;
})"""
CSV = """new Promise((done) => {
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => { blob.text().then(done);
    return make.call(URL, blob); };
  HTMLAnchorElement.prototype.click.call(
    document.querySelector("#NAME .csv"));
})"""


class Page(html.parser.HTMLParser):
    """The texts of a page by element and class, and its numbers."""

    def __init__(self, text):
        super().__init__()
        self.path, self.seen, self.numbers, self.elements = [], [], "", []
        self.feed(text)
        self.tables = {name: Table(table) for name, table in
                       json.loads(self.numbers).items()}

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag not in ("meta", "link"):
            self.path.append((tag, attributes.get("class", ""),
                              attributes.get("id")))
            if tag not in ("code", "i", "b"):
                self.seen.append([tag, attributes.get("class", ""), ""])

    def handle_endtag(self, tag):
        assert self.path[-1][0] == tag, (self.path, tag)
        self.path.pop()

    def handle_data(self, data):
        if self.path and self.path[-1][2] == "numbers":
            self.numbers += data
        elif self.path and self.path[-1][0] not in ("script", "style"):
            if data.strip():
                self.seen[-1][2] += data

    def texts(self, tag, name):
        return [text for t, c, text in self.seen if (t, c) == (tag, name)]

    def tiles(self):
        """name: (value, note)"""
        names = self.texts("span", "name")
        return dict(zip(names, zip(self.texts("strong", "value"),
                                   self.texts("span", "note"))))

    def advice(self):
        return dict(zip(self.texts("strong", "title"),
                        self.texts("span", "text")))


class Table:
    def __init__(self, table):
        self.columns = {c["name"]: c["values"] for c in table["columns"]}
        self.full = {c["name"]: c["full"] for c in table["columns"]}
        self.marks = {m["name"]: m["at"] for m in table["marks"]}

    def __getitem__(self, name):
        return self.columns[name]

    def rows(self, *names):
        return list(zip(*(self.columns[n] for n in names)))
