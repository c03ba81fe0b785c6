/tmp/tmp.nYPG91LXLx/venv/lib/python3.11/site-packages/triton/knobs.py:504: UserWarning: TRITON_DEFAULT_FP_FUSION is unset: defaulting to FP fusion ENABLED for backward compatibility in Triton 3.9. The default will change to DISABLED in Triton 3.10; set TRITON_DEFAULT_FP_FUSION=1 to keep fusion enabled or =0 to adopt the new default early and silence this warning.
  warn_once(FP_FUSION_DEFAULT_WARNING)
i32 bf16 +: fp32, *: fp32, where: fp32, maximum: fp32
i32 fp16 +: fp16, *: fp16, where: fp16, maximum: fp16
fp16 bf16 +: fp16, *: fp16, where: fp16, maximum: fp16, /: fp32, %: fp32
bf16 fp16 +: fp16, *: fp16, where: fp16, maximum: fp16
fp16 fp16 +: fp16, *: fp16, where: fp16, maximum: fp16, /: fp32, %: fp32, * 2.5: fp16
bf16 bf16 +: bf16, *: bf16, where: bf16, maximum: bf16, /: fp32, %: fp32, * 2.5: bf16
i8 i8 +: i8, *: i8, where: i8, maximum: i8, /: fp32, %: i8, * 2.5: fp32
