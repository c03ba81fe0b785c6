" The tile language.  A test compares these words with the compiler's.
if exists("b:current_syntax")
  finish
endif

syn keyword tileControl use for while if else return require
syn keyword tileDeclare kernel fn let var grid in out inout
syn keyword tileWord as load store print assert atomic_add atomic_max atomic_min zeros full
syn keyword tileConstant true false None auto inf pi
syn keyword tileType f32 tf32 f16 bf16 i32 u32 i8 u8 e4m3 e5m2 e8m0 i4 u4 e2m1 bool int type
syn keyword tileBuiltin tiles range iota pack cdiv max min sum any all cumsum cummax scan reduce argmax argmin top sort fold unfold where fma mask mma exp exp2 log log2 sqrt rsqrt rcp
syn keyword tileBuiltin tanh sin cos floor round abs mulhi bits shape dtype
syn match tileAttribute "@\(warps\|plan\|sizes\|stages\|no_split\|any_order\|by_rows\)\>"
syn match tileNumber "\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"
syn match tileNumber "\<0[xX]\x\+\>"
syn match tileEscape contained "\\[n\"\\]"
syn region tileString start=+"+ skip=+\\.+ end=+"\|$+ contains=tileEscape
syn keyword tileTodo contained TODO FIXME
syn match tileComment "//.*$" contains=tileTodo
syn region tileComment start="/\*" end="\*/" contains=tileTodo

hi def link tileControl Statement
hi def link tileDeclare Keyword
hi def link tileWord Operator
hi def link tileConstant Constant
hi def link tileType Type
hi def link tileBuiltin Function
hi def link tileAttribute PreProc
hi def link tileNumber Number
hi def link tileEscape SpecialChar
hi def link tileString String
hi def link tileTodo Todo
hi def link tileComment Comment

let b:current_syntax = "tile"
