package optimize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// Help returns an option that omits flags tagged as seldom from --help, so that
// it fits a screen. --help-all in args, which becomes --help, shows all flags.
func Help(args []string) (rest []string, option kong.Option) {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	rest = slices.Clone(args)
	all := slices.Index(rest[:end], "--help-all")
	if all >= 0 {
		rest[all] = "--help"
	}
	return rest, kong.Help(func(o kong.HelpOptions, ctx *kong.Context) error {
		n := selected(ctx)
		left := 0
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if f.Tag != nil && f.Tag.Has("seldom") && all < 0 {
					f.Hidden = true
					left++
				}
			}
		}
		if err := kong.DefaultHelpPrinter(o, ctx); err != nil || left == 0 {
			return err
		}
		_, err := fmt.Fprintf(ctx.Stdout, "\n%d more flags, seldom needed: %s --help-all\n", left, n.FullPath())
		return err
	})
}

// WrongLine is the message for a command line that causes err.
func WrongLine(name string, err error) string {
	path := name
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		path = selected(parse.Context).FullPath()
	}
	return fmt.Sprintf("%v (see %s --help)", err, path)
}

// selected is the command on the command line, as far as it was parsed.
func selected(ctx *kong.Context) *kong.Node {
	if n := ctx.Selected(); n != nil {
		return n
	}
	for i := len(ctx.Path) - 1; i >= 0; i-- { // if an argument is missing, the command is further up
		if c := ctx.Path[i].Command; c != nil {
			return c
		}
	}
	return ctx.Model.Node
}
