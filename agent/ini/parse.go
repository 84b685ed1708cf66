// Package ini reads and writes the dialect of ini files that Medusa reads:
// Python's configparser.ConfigParser(interpolation=None), strict as it is by
// default (medusa/config.py; Lib/configparser.py of Python 3.10 to 3.12).
//
// Covered: sections, keys without regard to case, "=" and ":" as delimiters,
// whole-line comments with "#" and ";", values over several indented lines with
// empty ones inside, the section DEFAULT that all others fall back to, and the
// same errors: a key before any section, a line without delimiter, a section or
// key given twice. Comments are not kept. Python's file reading is part of it:
// universal newlines, UTF-8.
package ini

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Default is the section whose keys all others inherit.
const Default = "DEFAULT"

// File is a parsed ini file. The zero value is empty and ready for use.
type File struct {
	sections []*group
}

// group is one section.
type group struct {
	name   string
	keys   []string // in the order of the file
	values map[string]string
}

// Error is a fault that keeps Python, and so Medusa, from reading the file.
type Error struct {
	Line   int // from 1
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Parse reads the text of an ini file as Python does.
func Parse(text string) (*File, error) {
	if !utf8.ValidString(text) {
		return nil, &Error{1, "the file is not UTF-8"}
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	p := parser{file: &File{}, collected: map[[2]string][]string{}}
	for number, line := range strings.Split(text, "\n") {
		if err := p.line(number+1, line); err != nil {
			return nil, err
		}
	}
	p.finish()
	return p.file, nil
}

// parser is the state of configparser.RawConfigParser._read.
type parser struct {
	file      *File
	current   *group
	key       string // of the value that an indented line continues; empty if none
	indent    int    // of the line that started the value
	collected map[[2]string][]string
}

func (p *parser) line(number int, line string) error {
	value := trim(line)
	comment := strings.HasPrefix(value, "#") || strings.HasPrefix(value, ";")
	if value == "" || comment {
		// An empty line may be part of a value, a comment never is.
		if !comment && p.current != nil && p.key != "" {
			p.add("")
		}
		return nil
	}
	indent := indentation(line)
	if p.current != nil && p.key != "" && indent > p.indent {
		p.add(value)
		return nil
	}
	p.indent = indent
	if end := strings.LastIndexByte(value, ']'); value[0] == '[' && end > 1 {
		return p.header(number, value[1:end])
	}
	if p.current == nil {
		return &Error{number, fmt.Sprintf("%q stands before the first [section]", value)}
	}
	at := strings.IndexAny(value, "=:")
	if at < 0 {
		return &Error{number, fmt.Sprintf("%q is neither a [section] nor a key = value", value)}
	}
	key := strings.ToLower(trim(value[:at]))
	if key == "" {
		return &Error{number, "a value without a key"}
	}
	id := [2]string{p.current.name, key}
	if _, twice := p.collected[id]; twice {
		return &Error{number, fmt.Sprintf("key %s is already given in section [%s]", key, p.current.name)}
	}
	p.key = key
	p.current.keys = append(p.current.keys, key)
	p.collected[id] = nil
	p.add(trim(value[at+1:]))
	return nil
}

func (p *parser) header(number int, name string) error {
	p.key = ""
	if s := p.file.section(name); s != nil {
		if name != Default {
			return &Error{number, fmt.Sprintf("section [%s] is already given", name)}
		}
		p.current = s
		return nil
	}
	p.current = p.file.add(name)
	return nil
}

func (p *parser) add(line string) {
	id := [2]string{p.current.name, p.key}
	p.collected[id] = append(p.collected[id], line)
}

// finish joins the lines of each value, as _join_multiline_values does.
func (p *parser) finish() {
	for _, s := range p.file.sections {
		for _, key := range s.keys {
			lines := p.collected[[2]string{s.name, key}]
			s.values[key] = strings.TrimRightFunc(strings.Join(lines, "\n"), isSpace)
		}
	}
}

// isSpace is str.isspace, which counts four separators that Go does not.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func trim(text string) string { return strings.TrimFunc(text, isSpace) }

// indentation counts the characters before the first that is not a space.
func indentation(line string) int {
	count := 0
	for _, r := range line {
		if !isSpace(r) {
			return count
		}
		count++
	}
	return 0
}
