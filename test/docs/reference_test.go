package docs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestConfigurationReference checks that docs/reference/configuration.md has every field of
// the schema.
func TestConfigurationReference(t *testing.T) {
	output, status, err := shell(t.Context(), t.TempDir(), "selvage schema")
	if err != nil || status != 0 {
		t.Fatalf("exit status %d, %v: %s", status, err, output)
	}
	var schema any
	if err := json.Unmarshal([]byte(output), &schema); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, code := range inlineCode.FindAllString(readFile(t, "docs/reference/configuration.md"), -1) {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(code, -1) {
			listed[word] = true
		}
	}
	for _, field := range slices.Sorted(maps.Keys(fields(schema))) {
		if !listed[field] {
			t.Errorf("docs/reference/configuration.md has no field %s", field)
		}
	}
}

// fields are the properties of a JSON Schema and of all schemas in it.
func fields(schema any) map[string]bool {
	found := map[string]bool{}
	switch s := schema.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name := range properties {
			found[name] = true
		}
		for _, inner := range s {
			maps.Copy(found, fields(inner))
		}
	case []any:
		for _, inner := range s {
			maps.Copy(found, fields(inner))
		}
	}
	return found
}

// everywhere are flags that docs/reference/commands.md explains once.
var everywhere = []string{"help", "version", "runtime-dir", "edge", "output", "results", "address", "token-file", "ca", "cert", "key"}

// TestCommandReference checks that docs/reference/commands.md has every command with all its
// flags: a section for each command, or one for all that it consists of.
func TestCommandReference(t *testing.T) {
	sections := sectionsOf(readFile(t, "docs/reference/commands.md"))
	found := slices.DeleteFunc(commandsOf(t, ""), func(name string) bool { return name == "lab" })
	for _, name := range commandsOf(t, "lab") {
		found = append(found, "lab "+name)
	}
	if len(found) < 30 {
		t.Fatalf("%d commands: %v", len(found), found)
	}
	for _, command := range found {
		name, _, _ := strings.Cut(command, " ")
		if name == "lab" {
			name = command
		}
		section, ok := sections[name]
		if !ok {
			t.Errorf("docs/reference/commands.md has no section %q", name)
			continue
		}
		for _, flag := range flagsOf(t, command) {
			if !slices.Contains(everywhere, flag) && !regexp.MustCompile(`--(\[no-\])?`+flag+"[` ]").MatchString(section) {
				t.Errorf("docs/reference/commands.md, %s: no flag --%s", name, flag)
			}
		}
	}
}

// sectionsOf are the texts below the headings of levels 2 and 3.
func sectionsOf(markdown string) map[string]string {
	sections, name := map[string]string{}, ""
	for line := range strings.Lines(markdown) {
		if m := regexp.MustCompile(`^###? (.*)\n`).FindStringSubmatch(line); m != nil {
			name = m[1]
			continue
		}
		sections[name] += line
	}
	return sections
}

// commandsOf are the names of all commands, as the help of the program lists them.
func commandsOf(t *testing.T, group string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z0-9]+(?: [a-z0-9-]+)?)(?: \([a-z]+\))?  +[A-Z]`).FindAllStringSubmatch(help(t, group), -1) {
		found = append(found, m[1])
	}
	return found
}

func flagsOf(t *testing.T, command string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--(?:\[no-\])?([a-z0-9-]+)`).FindAllStringSubmatch(help(t, command), -1) {
		found = append(found, m[1])
	}
	return found
}

func help(t *testing.T, command string) string {
	t.Helper()
	output, status, err := shell(t.Context(), t.TempDir(), "selvage "+command+" --help")
	if err != nil || status != 0 {
		t.Fatalf("selvage %s --help: exit status %d, %v: %s", command, status, err, output)
	}
	return output
}
