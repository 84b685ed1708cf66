package process

import (
	"fmt"
	"os"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// conf is a place in a configuration file: a value, and how it was reached.
type conf struct {
	node *yaml.Node // nil where there is none
	path string
	last bool // of duplicate keys the last counts, as in Python; else the first
}

// aborted is why a process of Anna ends when it reads its configuration: an
// exception of yaml-cpp that nobody catches.
type aborted struct{ error }

// load reads a file as yaml-cpp does, or with last as PyYAML.
func load(file string, last bool) (conf, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return conf{}, aborted{fmt.Errorf("bad file: %w", err)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return conf{}, aborted{fmt.Errorf("%s: %w", file, err)}
	}
	c := conf{path: file, last: last}
	if len(doc.Content) > 0 {
		c.node = doc.Content[0]
	}
	return c, nil
}

func (c conf) at(key string) conf {
	found := conf{path: c.path + ": " + key, last: c.last}
	if c.node == nil || c.node.Kind != yaml.MappingNode {
		return found
	}
	for i := 0; i+1 < len(c.node.Content); i += 2 {
		if c.node.Content[i].Value == key {
			if found.node = c.node.Content[i+1]; !c.last {
				break
			}
		}
	}
	if found.node != nil && found.node.Kind == yaml.AliasNode {
		found.node = found.node.Alias
	}
	return found
}

func (c conf) null() bool {
	return c.node == nil || c.node.Kind == yaml.ScalarNode && c.node.ShortTag() == "!!null"
}

// text panics with aborted where there is no string: a plain NULL is none.
func (c conf) text() string {
	if c.null() || c.node.Kind != yaml.ScalarNode {
		panic(aborted{fmt.Errorf("bad conversion: %s is no string", c.path)})
	}
	return c.node.Value
}

func (c conf) number() int {
	n, err := strconv.ParseUint(c.text(), 10, 32)
	if err != nil {
		panic(aborted{fmt.Errorf("bad conversion: %s: %w", c.path, err)})
	}
	return int(n)
}

func (c conf) truth() bool {
	b, err := strconv.ParseBool(c.text())
	if err != nil {
		panic(aborted{fmt.Errorf("bad conversion: %s: %w", c.path, err)})
	}
	return b
}

func (c conf) texts() []string {
	if c.node == nil || c.node.Kind != yaml.SequenceNode {
		return nil
	}
	var all []string
	for i, node := range c.node.Content {
		all = append(all, conf{node: node, path: fmt.Sprintf("%s[%d]", c.path, i)}.text())
	}
	return all
}
