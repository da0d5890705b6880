// Package share writes what a program has below /usr/share: manual pages and completion for shells.
//
// Its one invariant: all of it comes from the program's own command line and documents, so the same build
// writes the same bytes. It is for packages; people ask a program for --help and completion.
package share

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/completion"
	"github.com/selvage/selvage/internal/manual"
	"github.com/selvage/selvage/internal/program"
)

// Command is the hidden command by which a package's build asks; its argument is the directory that is to
// be /usr/share.
const Command = "__share"

// Edition is that of this build's pages. Their date is $SOURCE_DATE_EPOCH, or else now.
func Edition() manual.Edition {
	date := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(seconds, 0)
	}
	return manual.Edition{Source: program.Selvage + " " + program.Version(), Date: date}
}

// Write writes below dir the pages, and for each shell the completion of the model's command line.
func Write(dir string, model *kong.Application, pages []manual.Page) error {
	name := model.Name
	files := map[string]string{
		"bash-completion/completions/" + name:         completion.Script(name, "bash"),
		"zsh/site-functions/_" + name:                 completion.Script(name, "zsh"),
		"fish/vendor_completions.d/" + name + ".fish": completion.Script(name, "fish"),
	}
	for _, page := range pages {
		files["man/man"+page.Section+"/"+page.File()] = page.Text
	}
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
