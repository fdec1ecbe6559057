"""Charts of lines as SVG, for the pages of docs."""
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 56, 34, 190, 46
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
           "#56b4e9", "#999999", "#8b5a00"]


class Chart:
    """Lines over two axes; `x` and `y`: (first, last, step)."""

    def __init__(self, title, x_title, x, y, x_label="{:g}".format,
                 y_label="{:.2f}".format):
        self.x, self.y = x, y
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            self.text(LEFT, 20, title, "start", ' font-weight="bold"'),
            self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_title)]
        self.lines = 0
        for value in self.ticks(x):
            at = self.across(value)
            self.parts += [self.line(at, TOP, at, HEIGHT - BOTTOM, "#e4e4e4"),
                           self.text(at, HEIGHT - BOTTOM + 16, x_label(value))]
        for value in self.ticks(y):
            at = self.up(value)
            self.parts += [self.line(LEFT, at, WIDTH - RIGHT, at, "#e4e4e4"),
                           self.text(LEFT - 6, at + 4, y_label(value), "end")]

    @staticmethod
    def ticks(axis):
        first, last, step = axis
        return [first + step * i
                for i in range(round((last - first) / step) + 1)]

    def across(self, value):
        first, last, _ = self.x
        return LEFT + (value - first) / (last - first) * (WIDTH - RIGHT - LEFT)

    def up(self, value):
        first, last, _ = self.y
        value = max(value, first)  # what is below is at the border
        return HEIGHT - BOTTOM - (value - first) / (last - first) * (
            HEIGHT - BOTTOM - TOP)

    @staticmethod
    def line(x1, y1, x2, y2, colour, more=""):
        return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" '
                f'y2="{y2:.1f}" stroke="{colour}"{more}/>')

    @staticmethod
    def text(x, y, text, anchor="middle", more=""):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
                f'{more}>{text}</text>')

    def mark(self, value, text):
        at = self.up(value)
        self.parts += [
            self.line(LEFT, at, WIDTH - RIGHT, at, "#777777",
                      ' stroke-dasharray="4 4"'),
            self.text(LEFT + 4, at - 5, text, "start")]

    def draw(self, name, points, ranges=()):
        """A line; `ranges`: (x, least, greatest) of each point."""
        colour = COLOURS[self.lines % len(COLOURS)]
        path = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}"
                        for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" '
                          f'stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            self.parts.append(
                f'<circle cx="{self.across(x):.1f}" cy="{self.up(y):.1f}" '
                f'r="3" fill="{colour}"/>')
        for x, least, most in ranges:
            self.parts.append(self.line(
                self.across(x), self.up(least), self.across(x), self.up(most),
                colour, ' stroke-opacity="0.5"'))
        at = TOP + 12 + 20 * self.lines
        self.parts += [
            self.line(WIDTH - RIGHT + 12, at - 4, WIDTH - RIGHT + 32, at - 4,
                      colour, ' stroke-width="2"'),
            self.text(WIDTH - RIGHT + 38, at, name, "start")]
        self.lines += 1

    def write(self, path):
        path.write_text("\n".join([*self.parts, "</svg>"]) + "\n")
        print(f"written: {path.name}")
