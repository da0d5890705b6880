package program

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/alecthomas/kong"
)

// WholeNumbers has kong name what is wrong with a number of a flag in words.
func WholeNumbers() kong.Option {
	return kong.KindMapper(reflect.Int, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue("whole number")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(fmt.Sprint(token.Value))
		if err != nil {
			return fmt.Errorf("%v is not a whole number, or too large", token.Value)
		}
		target.SetInt(int64(n))
		return nil
	}))
}
