// Package zoo plans many models with Apache Beam, on one machine or many. It does for
// models on any of Beam's file systems what "onnxmem batch" does for a folder.
//
//	zoo.go       the pipeline
//	plan.go      the work on one model: fetch it, plan it, copy the results
//	conclude.go  journal and tables of all models
//	files.go     files of any file system
package zoo

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
)

// Zoo says which models to plan, and how.
type Zoo struct {
	Patterns []string // of models; results lie in OUT by their paths below a pattern's literal part
	List     string   // a file with one path per line; "" for none
	Out      string   // the folder for the results

	Job       optimize.Job  // its paths are ignored; ExternalData is copy or keep
	Reports   bool          // write a report beside each plan
	ModelTime time.Duration // limit for one model; 0: none
}

func init() {
	register.Function1x2(namedByMatch)
	register.Function1x2(namedByLine)
	register.DoFn4x0[context.Context, string, func(*string) bool, func(outcome)](&planFn{})
	register.DoFn3x1[context.Context, int, func(*outcome) bool, error](&concludeFn{})
	register.Iter1[string]()
	register.Iter1[outcome]()
	register.Emitter1[outcome]()
	for _, t := range []any{batch.Model{}, outcome{}} {
		beam.RegisterType(reflect.TypeOf(t))
	}
}

// Build adds the pipeline to a scope. It expands the patterns on the machine that starts
// the pipeline; a pattern without matches is an error. The workers read the list.
func (z Zoo) Build(ctx context.Context, s beam.Scope) error {
	var named []beam.PCollection
	if len(z.Patterns) > 0 {
		models, err := expand(ctx, z.Patterns)
		if err != nil {
			return err
		}
		named = append(named, beam.ParDo(s, namedByMatch, beam.CreateList(s, models)))
	}
	if z.List != "" {
		if err := readable(ctx, z.List); err != nil {
			return err
		}
		named = append(named, beam.ParDo(s, namedByLine, textio.Read(s, z.List)))
	}
	if len(named) == 0 {
		return errors.New("no models: expected patterns or a list")
	}
	// Models of one name have the same target. Grouping by name detects that, and
	// distributes the work.
	models := beam.GroupByKey(s, beam.Flatten(s, named...))
	outcomes := beam.ParDo(s.Scope("plan"), &planFn{Zoo: z}, models)
	all := beam.GroupByKey(s, beam.AddFixedKey(s, outcomes))
	beam.ParDo0(s.Scope("conclude"), &concludeFn{Zoo: z}, all)
	return nil
}

// outcome is the result of a model.
type outcome struct {
	Line string // its line of the journal
	Ran  bool   // planned in this run, not in an earlier one
}

func namedByMatch(m batch.Model) (rel, path string) { return m.Rel, m.Path }

func namedByLine(path string) (rel, same string) { return relOf(path), path }
